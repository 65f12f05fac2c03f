"""Lives many random lives of queries, and judges each by every record and by Spark's own watermark.

python -m tests.lives --worlds 20000 --seed 1      prints the seeds of lives that go wrong
python -m tests.lives --seed 4711 --only           shows one life, shortened if it goes wrong
"""

from __future__ import annotations

import argparse
import logging
import re
import sys
from collections import Counter
from multiprocessing import Pool

from tests.lives.making import make, shortened
from tests.lives.query import Life
from tests.lives.world import World


def complaint(world: World) -> str | None:
    """Live a world; return what went wrong, in words; None: nothing did."""
    try:
        Life(world).live()
    except Exception as error:  # noqa: BLE001 - the planner may fail in any way
        return f"{type(error).__name__}: {error}"
    return None


def kind(text: str | None) -> str | None:
    """Return a complaint without its names and numbers."""
    return text and re.sub(r"\{.*\}|\[.*\]|Row\(.*\)|View\(.*\)|\b[ab]?-?\d+\b", "", text)[:60]


def of_seed(seed: int) -> tuple[int, str | None]:
    logging.disable(logging.CRITICAL)
    return seed, complaint(make(seed))


def explain(seed: int) -> None:
    """Print the shortest life that goes wrong as that of a seed does."""
    world = make(seed)
    wrong = complaint(world)
    if wrong is not None:
        world = shortened(world, lambda tried: kind(complaint(tried)) == kind(wrong))
        wrong = complaint(world)
    print(f"{world}\n  => {wrong or 'nothing goes wrong'}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lives", description=__doc__.splitlines()[0])
    parser.add_argument("--worlds", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1, help="of the first world; the others follow it")
    parser.add_argument("--only", action="store_true", help="live that world alone, and show it")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--explained", type=int, default=1, help="how many lives of each kind of fault to shorten")
    args = parser.parse_args()
    logging.disable(logging.CRITICAL)
    if args.only:
        explain(args.seed)
        return 0
    seen: Counter[str] = Counter()
    with Pool(args.processes) as pool:
        for seed, wrong in pool.imap_unordered(of_seed, range(args.seed, args.seed + args.worlds), chunksize=20):
            if wrong is not None:
                seen[kind(wrong)] += 1
                print(f"seed {seed}: {wrong}", flush=True)
                if seen[kind(wrong)] <= args.explained:
                    explain(seed)
    print(f"{args.worlds} lives, of which {sum(seen.values())} went wrong")
    for text, count in seen.most_common():
        print(f"{count:6} {text}")
    return 1 if seen else 0


if __name__ == "__main__":
    sys.exit(main())
