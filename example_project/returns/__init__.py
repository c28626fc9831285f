"""The returns of parcels as a graph, as it is today (LangGraph; the extra ``langgraph``)."""
