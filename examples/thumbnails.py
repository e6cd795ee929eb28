"""Background tasks: functions that are called here and run in a worker, with retries and results.

goqueue worker thumbnails:app            in examples/, in one terminal
python examples/thumbnails.py            in another; with --here, without a worker
"""

import os
import sys

from goqueue import App

app = App(os.environ.get("GOQUEUE_SERVER", "http://localhost:8080"), name="thumbnails")


@app.task(retries=3, backoff="1s", timeout="30s")
def resize(picture: str, width: int) -> str:
    return f"{picture} is {width} pixels wide"


@app.task
def publish(results: list[str]) -> int:
    return len(results)


if __name__ == "__main__":
    if "--here" in sys.argv:
        with app.testing():
            print(resize.delay("a.png", 200).get(timeout=30))
    else:
        print(resize.delay("a.png", 200).get(timeout=60))
