"""Booking by chat: ask for nights and guests, both answered by the same event, then book."""

from __future__ import annotations

import os

from pytest_loom import Context, flow, step


def outside(line: str) -> None:
    with open(os.environ["EFFECTS_LOG"], "a") as file:
        file.write(f"{line}\n")


@step
async def find(city: str) -> str:
    outside(f"search {city}")
    return "Hotel Loom"


@step
async def book(hotel: str, nights: int, guests: int) -> str:
    outside(f"book {hotel}: {nights} nights, {guests} guests")
    return f"booked {hotel}"


@flow(id="booking", version="1.0.0", steps=[find, book], gates={"Answered": int})
async def booking(ctx: Context, city: str) -> str:
    hotel = await ctx.run(find, city)
    nights = await ctx.suspend("Answered", kind="question", pending={"field": "nights", "ask": "How many nights?"})
    guests = await ctx.suspend("Answered", kind="question", pending={"field": "guests", "ask": "How many guests?"})
    return await ctx.run(book, hotel, nights, guests)


flows = {"booking": booking}
