"""TRL's rewards from `autotriton reward`, which AUTOTRITON_REWARD_URL names; README.md tells the rest."""
from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.request
from typing import Any


def triton_reward(prompts: list[Any], completions: list[Any], completion_ids: Any = None, **columns: Any) -> list[float | None]:
    """A reward function of GRPOTrainer. The data set's column `label` (or `task`, `ground_truth`, `task_id`) names the
    problem. Where nothing could be judged it gives None, which TRL leaves out."""
    labels = next(columns[name] for name in ("label", "task", "ground_truth", "task_id") if name in columns)
    answers = [text if isinstance(text, str) else text[-1]["content"] for text in completions]
    return [v["reward"] for v in judge([{"label": label, "answer": text} for label, text in zip(labels, answers, strict=True)])]


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
