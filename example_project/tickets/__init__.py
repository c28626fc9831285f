"""A ticket desk of agents, as it is today (OpenAI Agents SDK; the extra ``openai-agents``)."""
