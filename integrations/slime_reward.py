"""slime's rewards from `autotriton reward`, which AUTOTRITON_REWARD_URL names; README.md tells the rest."""
from __future__ import annotations

import asyncio
import json
import os
import time
import urllib.error
import urllib.request
from typing import Any


async def reward(args: Any, samples: Any, **_: Any) -> Any:
    """For --custom-rm-path: a sample, or with --group-rm a group. One without a reward is taken out of the loss and gets
    its group's mean, so that it does not move the others' advantages."""
    group = samples if isinstance(samples, list) else [samples]
    verdicts = await asyncio.to_thread(judge, [{"label": sample.label, "answer": sample.response} for sample in group])
    known = [verdict["reward"] for verdict in verdicts if verdict["reward"] is not None]
    for sample, verdict in zip(group, verdicts, strict=True):
        sample.remove_sample = sample.remove_sample or verdict["reward"] is None
    mean = sum(known) / max(len(known), 1)
    rewards = [mean if verdict["reward"] is None else verdict["reward"] for verdict in verdicts]
    return rewards if isinstance(samples, list) else rewards[0]


def judge(items: list[dict[str, Any]], patience: float = 3600) -> list[dict[str, Any]]:
    """The verdict of each {"label": …, "answer": …}. Comes back while the server is busy or away, for `patience` seconds."""
    if len(items) > 256:
        return judge(items[:256], patience) + judge(items[256:], patience)
    headers = {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ.get("AUTOTRITON_API_KEY", "")}
    body, until = json.dumps({"items": items, "deadline_seconds": patience}).encode(), time.monotonic() + patience
    request = urllib.request.Request(os.environ["AUTOTRITON_REWARD_URL"].rstrip("/") + "/v1/verify/batch", body, headers)
    while True:
        try:
            with urllib.request.urlopen(request, timeout=patience + 30) as response:
                return list(json.load(response)["results"])
        except OSError as error:  # A refusal by HTTP is one too.
            refusal = error if isinstance(error, urllib.error.HTTPError) else None
            if time.monotonic() > until or (refusal and refusal.code not in (429, 503)):
                raise RuntimeError(f"{request.full_url}: {refusal.read().decode() if refusal else error}") from error
            time.sleep(min(float(refusal.headers.get("Retry-After", 2)) if refusal else 2, 60))
