"""verl's rewards from `autotriton reward`, which AUTOTRITON_REWARD_URL names; README.md tells the rest."""
from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.request
from typing import Any


def compute_score(data_source: Any, solution_str: str, ground_truth: Any, extra_info: Any = None, **_: Any) -> dict[str, Any]:
    """One answer. verl has no mask: without a reward this raises, or gives AUTOTRITON_REWARD_MASKED if that is set."""
    result = compute_scores([data_source], [solution_str], [ground_truth], [extra_info])[0]
    if result["masked"] and "AUTOTRITON_REWARD_MASKED" not in os.environ:
        raise RuntimeError(f"no reward: {result['reason']}; use the batch manager, or set AUTOTRITON_REWARD_MASKED")
    return {**result, "score": float(os.environ["AUTOTRITON_REWARD_MASKED"])} if result["masked"] else result


def compute_scores(data_sources: Any, solution_strs: Any, ground_truths: Any, extra_infos: Any, **_: Any) -> list[dict[str, Any]]:
    """A batch (reward_manager.name=batch). An answer without a reward gets its group's mean, which is no advantage."""
    verdicts = judge([{"label": label, "answer": answer} for label, answer in zip(ground_truths, solution_strs, strict=True)])
    known: dict[str, list[float]] = {str(label): [] for label in ground_truths}
    for label, verdict in zip(ground_truths, verdicts, strict=True):
        known[str(label)] += [verdict["reward"]] if verdict["reward"] is not None else []
    means = {label: sum(rewards) / max(len(rewards), 1) for label, rewards in known.items()}
    rewards = [means[str(label)] if v["reward"] is None else v["reward"] for label, v in zip(ground_truths, verdicts, strict=True)]
    return [{"score": r, "masked": float(v["reward"] is None), "reason": v["reason"]} for r, v in zip(rewards, verdicts, strict=True)]


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
