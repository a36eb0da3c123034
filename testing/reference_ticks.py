"""Prints the reference of the ticks of schedules, which a unit test of the engine compares with its own ticks.

The ticks are those of cronsim, an independent implementation of Debian's cron. How to write the reference anew:

    python3 -m venv /tmp/ticks && /tmp/ticks/bin/pip install cronsim==2.8 tzdata==2026.6
    PYTHONTZPATH= /tmp/ticks/bin/python testing/reference_ticks.py > engine/src/tree/schedules/ticks/reference.txt

Each line has a zone, an expression, the number of its ticks in ten years, the first one, and a hash of all: FNV-1a with
64 bits over the Unix times in seconds, each as eight bytes, the most significant first.
"""

from datetime import datetime, timezone
from zoneinfo import ZoneInfo

from cronsim import CronSim

FROM = datetime(2026, 1, 1, tzinfo=timezone.utc)
TO = datetime(2036, 1, 1, tzinfo=timezone.utc)

ZONES = [
    "UTC",
    "Africa/Cairo",
    "America/Chicago",
    "America/Los_Angeles",
    "America/New_York",
    "America/Santiago",
    "America/Sao_Paulo",
    "America/St_Johns",
    "Asia/Beirut",
    "Asia/Jerusalem",
    "Asia/Kathmandu",
    "Asia/Kolkata",
    "Asia/Tokyo",
    "Australia/Lord_Howe",
    "Australia/Sydney",
    "Europe/Berlin",
    "Europe/Helsinki",
    "Europe/Lisbon",
    "Europe/London",
    "Pacific/Chatham",
]

EXPRESSIONS = ["20 * * * *", "*/15 * * 3,4,9-11 0", "30 2 * * *", "0 9 * * 1-5", "15 1 1 * *", "0 0 29 2 *"]

# Lord Howe moves its clock by half an hour. In the repeated half hour, cronsim runs an expression of every hour only by the
# wall clock; Treeline counts elapsed time there as everywhere (`every_hour_counts_elapsed_time` tests it).
EXCEPTIONS = {("Australia/Lord_Howe", "20 * * * *")}


def line(zone, expression):
    count, first, fnv = 0, None, 0xCBF29CE484222325
    for tick in CronSim(expression, FROM.astimezone(ZoneInfo(zone))):
        seconds = int(tick.timestamp())
        if seconds >= TO.timestamp():
            break
        first = first or seconds
        count += 1
        for byte in seconds.to_bytes(8, "big"):
            fnv = (fnv ^ byte) * 0x100000001B3 % 2**64
    return f"{zone}\t{expression}\t{count}\t{first}\t{fnv:016x}"


if __name__ == "__main__":
    for zone in ZONES:
        for expression in EXPRESSIONS:
            if (zone, expression) not in EXCEPTIONS:
                print(line(zone, expression))
