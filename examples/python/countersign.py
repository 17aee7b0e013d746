"""Countersign for Python agents: one file to copy. Needs Python 3.10 and httpx 0.27. docs/python.md shows its use."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hashlib
import hmac
import itertools
import json
import logging
import os
import re
import time
import uuid
from functools import partial
from typing import Any, AsyncIterator, Awaitable, Callable, Mapping
from urllib.parse import quote

import httpx

log = logging.getLogger("countersign")
# Many proxies end a request after 60 seconds.
WAIT_SECONDS = 50
# The outcome of a claimed call whose process has died is unknown after this time. A running process renews its claims.
LEASE_SECONDS = 60
# Heartbeats come every 15 seconds: a stream that is silent for longer is lost.
STREAM_TIMEOUT = httpx.Timeout(10, read=45)
BUSY = frozenset({408, 429, 502, 503, 504})
BEGUN = frozenset({"STEP_ALREADY_CLAIMED", "STEP_ALREADY_COMPLETED"})


class Problem(Exception):
    """An error response of the service: its `status`, `code`, `request_id` and text."""

    def __init__(self, response: httpx.Response) -> None:
        body = response.json() if "problem+json" in response.headers.get("content-type", "") else {}
        self.status, self.code = response.status_code, body.get("code", str(response.status_code))
        self.request_id = response.headers.get("x-request-id")
        super().__init__(f"{self.code}: {body.get('detail', response.reason_phrase)}")


class NotExecuted(Exception):
    """The call must not be executed. The text is for the model."""


def backoff(failures: int, response: httpx.Response | None = None) -> float:
    asked = "0" if response is None else response.headers.get("retry-after", "0")
    return max(int(asked) if asked.isdecimal() else 0, min(0.25 * 2 ** min(failures, 10), 30))


class Countersign:
    """The service as one API key reaches it. Requests are repeated while the service is busy or unreachable."""

    def __init__(self, url: str | None = None, key: str | None = None) -> None:
        url, key = url or os.environ["COUNTERSIGN_URL"], key or os.environ["COUNTERSIGN_KEY"]
        limits = httpx.Limits(max_connections=None)  # Each waiting call has a connection.
        headers = {"authorization": f"Bearer {key}"}
        timeout = httpx.Timeout(10, read=WAIT_SECONDS + 30)
        self.http = httpx.AsyncClient(base_url=url, headers=headers, timeout=timeout, limits=limits)

    async def send(self, method: str, path: str, body: Any = None, attempts: float = 5, headers: Any = None) -> Any:
        """Sends a request that may be repeated. Raises Problem, or httpx.TransportError if there is no response."""
        for failures in itertools.count(1):
            response = None
            try:
                response = await self.http.request(method, path, json=body, headers=headers)
                if response.is_success:
                    return response.json() if response.content else None
                if response.status_code not in BUSY or failures >= attempts:
                    raise Problem(response)
            except httpx.TransportError:
                if failures >= attempts:
                    raise
            await asyncio.sleep(backoff(failures, response))

    async def create(self, path: str, body: Any, headers: Mapping[str, str] = {}) -> Any:
        """Sends a request that creates something: once, also if it is repeated."""
        return await self.send("POST", path, body, headers={"idempotency-key": str(uuid.uuid4()), **headers})

    async def open_session(self, metadata: Mapping[str, Any] | None = None, **options: Any) -> Session:
        created = await self.create("/v1/agent-sessions", {"metadata": metadata or {}})
        return Session(self, created["session_id"], **options)

    async def events(self, session_id: str, after: int = 0) -> AsyncIterator[dict[str, Any]]:
        """The events after a number, each once and in order, until the session is closed. Reconnects by itself."""
        path, failures = f"/v1/agent-sessions/{quote(session_id, safe='')}/events/stream", 0
        while True:
            response, failures = None, failures + 1
            try:
                headers = {"last-event-id": str(after)} if after > 0 else {}
                async with self.http.stream("GET", path, headers=headers, timeout=STREAM_TIMEOUT) as response:
                    if response.status_code == 204:
                        return
                    if response.status_code not in BUSY | {200}:
                        await response.aread()
                        raise Problem(response)
                    async for event in read_events(response):
                        failures, after = 0, event["id"]
                        yield event
                        if event["type"] == "session:closed":
                            return
            except httpx.TransportError as error:
                log.info("The stream of %s broke off and is resumed after %d: %r", session_id, after, error)
            await asyncio.sleep(backoff(failures, response))


async def read_events(response: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    # Not aiter_lines: it also splits at U+2028 and other characters that a JSON text may contain.
    rest = b""
    async for chunk in response.aiter_bytes():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):  # One line, with the number and the type too.
                yield json.loads(line[5:])


class Session:
    """`classes`: action classes by tool, by default `write`. `wait`: limit of the wait for a person, in seconds.
    `on_message`: an async function that gets a reviewer's message about a call that waits, and returns the answer or None."""

    def __init__(
        self,
        client: Countersign,
        id: str,
        classes: Mapping[str, str] = {},
        wait: float | None = None,
        on_message: Callable[[dict[str, Any]], Awaitable[str | None]] | None = None,
    ) -> None:
        self.client, self.id, self.classes, self.wait, self.on_message = client, id, classes, wait, on_message
        self.path = f"/v1/agent-sessions/{quote(id, safe='')}"

    async def ask(self, step_id: str, tool: str, arguments: Any) -> dict[str, Any]:
        """Returns the step once it is allowed, with its claim; otherwise raises NotExecuted. Asked again, it goes on waiting."""
        step = {"step_id": step_id, "tool": tool, "arguments": arguments}
        try:
            decision = self._decide({**step, "action_class": self.classes.get(tool, "write")})
            answer = await asyncio.wait_for(decision, self.wait)
        except asyncio.TimeoutError as error:
            raise NotExecuted("This call waits for a person and was not executed.") from error
        except (Problem, httpx.HTTPError, TypeError, ValueError) as error:
            # TypeError and ValueError: JSON has no such arguments.
            log.error("No decision about %s (%s): %r", tool, step_id, error)
            if isinstance(error, Problem) and error.code in BEGUN:
                raise NotExecuted("This call was begun before, so it was not executed again.") from error
            detail = error if isinstance(error, Problem) else "No person and no rule has rejected it."
            raise NotExecuted(f"There is no decision, so this call was not executed. {detail}") from error
        if answer["decision"] != "allow":
            raise NotExecuted(describe_rejection(answer))
        return answer

    async def _decide(self, step: dict[str, Any]) -> dict[str, Any]:
        # With one key, a repeated request gets the claim whose response was lost.
        headers = {"idempotency-key": str(uuid.uuid4())}
        claimed = {**step, "claim": True, "lease_seconds": LEASE_SECONDS}
        query, attempts = f"wait_seconds={WAIT_SECONDS}", 5.0
        while True:
            answer = await self.client.send("POST", f"{self.path}/steps?{query}", claimed, attempts, headers)
            if answer["decision"] != "pending":
                return answer
            for message in answer.get("messages", []):
                query = f"wait_seconds={WAIT_SECONDS}&after_message={message['number']}"
                text = await self.on_message(message) if self.on_message else None
                if text:
                    await self.client.create(f"/v1/agent-approvals/{answer['approval_id']}/messages", {"text": text})
            # A person may take days, in which the service may be restarted.
            attempts = float("inf")

    @contextlib.asynccontextmanager
    async def keep(self, claim: Mapping[str, Any]) -> AsyncIterator[None]:
        """Renews a claim while the tool runs. A tool that blocks the event loop blocks the renewal too."""

        async def renew() -> None:
            path = f"{self.path}/steps/{quote(claim['step_id'], safe='')}/claim/renew"
            try:
                while True:
                    await asyncio.sleep(LEASE_SECONDS / 3)
                    await self.client.send("POST", path, {"claim_id": claim["id"], "lease_seconds": LEASE_SECONDS})
            except (Problem, httpx.HTTPError) as error:
                log.error("The claim of %s is lost, and its outcome unknown until it ends: %r", claim["step_id"], error)

        task = asyncio.create_task(renew())
        try:
            yield
        finally:
            task.cancel()

    async def report(self, claim: Mapping[str, Any], status: str, **more: Any) -> None:
        """Reports that a claimed step `succeeded` or `failed`. Problems are logged: the tool has been executed."""
        step_id = claim["step_id"]
        path = f"{self.path}/steps/{quote(step_id, safe='')}/outcome"
        body = {"claim_id": claim["id"], "status": status}
        try:
            await self.client.send("POST", path, {**body, **json.loads(json.dumps(more, default=str))})
        except (Problem, httpx.HTTPError, TypeError, ValueError) as error:
            if "result" in more:  # It may be too large, or no JSON.
                await self.report(claim, status)
            elif not (isinstance(error, Problem) and error.code == "STEP_ALREADY_COMPLETED"):
                log.error("No record of the outcome of %s: %r", step_id, error)

    async def govern(self, step_id: str, tool: str, arguments: Any, execute: Callable, denied: Any = str) -> Any:
        """Executes a call if it is allowed, and reports its outcome; if not, returns the text for the model."""
        try:
            claim = (await self.ask(step_id, tool, arguments))["claim"]
        except NotExecuted as error:
            return denied(str(error))
        try:
            async with self.keep(claim):
                result = await execute()
        except Exception as error:  # Not a cancellation: the call may have been executed, and becomes unknown.
            await self.report(claim, "failed", error=repr(error)[:2000])
            raise
        content = getattr(result, "content", result)
        is_failed = getattr(result, "status", None) == "error"  # LangChain's message about a failed tool.
        more = {"error": str(content)[:2000]} if is_failed else {"result": content}
        await self.report(claim, "failed" if is_failed else "succeeded", **more)
        return result

    async def close(self) -> None:
        await self.client.send("POST", f"{self.path}/close")


def describe_rejection(step: Mapping[str, Any]) -> str:
    if step["decision_source"] == "timeout":
        return "Nobody decided about this call in time, so it was not executed. No person has rejected it."
    if step["decision_source"] != "human":
        return f"This call was rejected, so it was not executed. {step['reason']}"
    comment = f" Their comment: {json.dumps(step['comment'], ensure_ascii=False)}." if step["comment"] else ""
    text = f"A person rejected this call, so it was not executed.{comment}"
    if step["proposal"]:
        proposed = json.dumps(step["proposal"]["arguments"], ensure_ascii=False)
        text += f" They propose other arguments; a call with exactly these is allowed: {proposed}"
    return text


def verify_webhook(body: bytes, signature: str, secret: str) -> dict[str, Any]:
    """Returns the event, by the raw body and the header `x-svc-signature`. Raises ValueError if it is not signed."""
    signed_at = re.match(r"t=([0-9]{1,12}),", signature)
    if signed_at is None or abs(time.time() - int(signed_at[1])) > 300:
        raise ValueError("The signature is missing or more than 300 seconds old")
    expected = hmac.new(secret.encode(), signed_at[1].encode() + b"." + body, hashlib.sha256).hexdigest()
    if not any(hmac.compare_digest(expected, digest) for digest in re.findall(r",v1=([0-9a-f]{64})", signature)):
        raise ValueError("The signature does not match the body")
    return json.loads(body)


def pydantic_ai_toolset(session: Session, toolset: Any) -> Any:
    from pydantic_ai.toolsets import WrapperToolset

    class Governed(WrapperToolset):
        async def call_tool(self, name: str, tool_args: dict[str, Any], ctx: Any, tool: Any) -> Any:
            execute = partial(super().call_tool, name, tool_args, ctx, tool)
            return await session.govern(ctx.tool_call_id, name, tool_args, execute)

    return Governed(toolset)


def openai_agents_tool(session: Session, function: Callable[..., Any], **options: Any) -> Any:
    from agents import default_tool_error_function, function_tool

    tool = function_tool(function, **options, failure_error_function=None)  # Else a failure looks like a result.

    async def invoke(ctx: Any, arguments: str) -> Any:
        try:
            execute = partial(tool.on_invoke_tool, ctx, arguments)
            return await session.govern(ctx.tool_call_id, tool.name, json.loads(arguments or "{}"), execute)
        except Exception as error:
            return default_tool_error_function(ctx, error)

    return dataclasses.replace(tool, on_invoke_tool=invoke)


def langchain_middleware(session: Session) -> Any:
    from langchain.agents.middleware import AgentMiddleware
    from langchain_core.messages import ToolMessage

    class Governed(AgentMiddleware):
        async def awrap_tool_call(self, request: Any, handler: Callable[..., Any]) -> Any:
            id, name = request.tool_call["id"], request.tool_call["name"]
            denied = partial(ToolMessage, tool_call_id=id, name=name, status="error")
            return await session.govern(id, name, request.tool_call["args"], partial(handler, request), denied)

    return Governed()
