import { assert, layer } from "@effect/vitest"
import { Effect, Redacted, Result } from "effect"
import { execFile, spawnSync } from "node:child_process"
import { fileURLToPath } from "node:url"
import { makeSigningKey, signatureHeaders } from "../../src/domain/delivery/WebhookSignature.ts"
import { Countersign } from "../../src/testing/index.ts"
import { eventually } from "../support/eventually.ts"
import { service } from "../support/service.ts"

const missing =
  spawnSync("python3", ["-c", "import httpx, sys; sys.exit(sys.version_info < (3, 10))"]).status !== 0
if (missing)
  process.stdout.write("the Python example is not tested: Python 3.10 with httpx is not installed\n")

/** Runs a program that can import the example, and returns the JSON that it prints. */
const python = (program: string, environment: Readonly<Record<string, string>>) =>
  Effect.callback<unknown>((resume) => {
    const child = execFile(
      "python3",
      ["-c", `from countersign import *\n${program}`],
      {
        env: {
          PATH: process.env["PATH"],
          PYTHONPATH: fileURLToPath(new URL("../../examples/python", import.meta.url)),
          PYTHONDONTWRITEBYTECODE: "1",
          ...environment
        }
      },
      (error, out) => resume(error === null ? Effect.sync(() => JSON.parse(out)) : Effect.die(error))
    )
    return Effect.sync(() => void child.kill())
  })

layer(service(), { excludeTestServices: true, timeout: "120 seconds" })("examples/python", (it) => {
  it.effect.skipIf(missing)(
    "executes a call when a person approves it, and not when a person rejects it",
    () =>
      Effect.gen(function* () {
        const { awaitPending, client, key, url } = yield* Countersign
        const agent = yield* key({ preset: "runtime", name: "Python" })
        const ada = yield* client({ preset: "reviewer", name: "Ada" })
        const decide = (tool: string, payload: Parameters<typeof ada.approvals.decide>[0]["payload"]) =>
          Effect.flatMap(awaitPending({ tool }), (id) => ada.approvals.decide({ params: { id }, payload }))
        const [printed] = yield* Effect.all(
          [
            python(
              `
async def main():
    session = await Countersign().open_session()
    async def execute():
        return "done"
    calls = [session.govern(tool, tool, {"order": "4711"}, execute) for tool in ("refund", "delete")]
    answers = await asyncio.gather(*calls)
    again = await session.govern("refund", "refund", {"order": "4711"}, execute)
    await session.close()
    events = [event async for event in session.client.events(session.id)]
    rest = [event["id"] async for event in session.client.events(session.id, events[-2]["id"])]
    print(json.dumps([*answers, again, [event["type"] for event in events if "status" in event], rest == [events[-1]["id"]]]))
asyncio.run(main())`,
              { COUNTERSIGN_URL: url, COUNTERSIGN_KEY: Redacted.value(agent) }
            ),
            decide("refund", { decision: "approve" }),
            decide("delete", { decision: "reject", comment: "Not\u2028☂" })
          ],
          { concurrency: "unbounded" }
        )
        assert.deepStrictEqual(printed, [
          "done",
          'A person rejected this call, so it was not executed. Their comment: "Not\u2028☂".',
          "This call was begun before, so it was not executed again.",
          ["tool:outcome"],
          true
        ])
      })
  )

  it.effect.skipIf(missing)("answers a reviewer's message while it waits", () =>
    Effect.gen(function* () {
      const { awaitPending, client, key, url } = yield* Countersign
      const agent = yield* key({ preset: "runtime", name: "Python" }, "asked")
      const ada = yield* client({ preset: "reviewer", name: "Ada" }, "asked")
      const talk = Effect.gen(function* () {
        const id = yield* awaitPending({ tool: "refund" }, "asked")
        yield* ada.approvals.sendMessage({ params: { id }, payload: { text: "Which photo?" } })
        const { messages } = yield* eventually(
          ada.approvals.listMessages({ params: { id } }),
          (found) => found.messages.length === 2
        )
        yield* ada.approvals.decide({ params: { id }, payload: { decision: "approve" } })
        return messages.map(({ sender, text }) => [sender, text])
      })
      const [printed, messages] = yield* Effect.all(
        [
          python(
            `
async def reply(message):
    return "The second one: " + message["text"]
async def execute():
    return "done"
async def main():
    session = await Countersign().open_session(on_message=reply)
    print(json.dumps(await session.govern("refund", "refund", {"order": "4711"}, execute)))
asyncio.run(main())`,
            { COUNTERSIGN_URL: url, COUNTERSIGN_KEY: Redacted.value(agent) }
          ),
          talk
        ],
        { concurrency: "unbounded" }
      )
      assert.strictEqual(printed, "done")
      assert.deepStrictEqual(messages, [
        ["reviewer", "Which photo?"],
        ["agent", "The second one: Which photo?"]
      ])
    })
  )

  it.effect.skipIf(missing)(
    "claims a call with one key, renews the claim while it runs, and reports with it, unless it is cancelled",
    () =>
      Effect.gen(function* () {
        const printed = yield* python(
          `
import countersign
countersign.LEASE_SECONDS = 0.15
seen, renewed = [], asyncio.Event()
steps = iter([503, "pending", "allow", "allow"])
def answer(request):
    body, last = json.loads(request.content), request.url.path.rsplit("/", 1)[1]
    if last == "steps":
        seen.append([body["claim"], request.headers["idempotency-key"]])
        step = next(steps)
        if step == 503:
            return httpx.Response(503)
        claim = {"claim": {"id": "clm_1", "step_id": body["step_id"]}} if step == "allow" else {}
        return httpx.Response(200, json={"decision": step, "approval_id": "apr_1", **claim})
    seen.append([last, body["claim_id"]])
    if last == "renew":
        renewed.set()
    return httpx.Response(200, json={})
async def execute():
    await renewed.wait()
async def main():
    client = Countersign("http://localhost", "csk_")
    client.http = httpx.AsyncClient(base_url="http://localhost", transport=httpx.MockTransport(answer))
    await Session(client, "ses_1").govern("refund", "refund", {}, execute)
    keys = {key for claim, key in seen if claim is True}
    ends = [len(keys), [first for first, second in seen], seen[-1]]
    renewed.clear()
    seen.clear()
    cancelled = asyncio.create_task(Session(client, "ses_1").govern("other", "refund", {}, asyncio.Event().wait))
    await renewed.wait()
    cancelled.cancel()
    await asyncio.wait([cancelled])
    print(json.dumps([*ends, "outcome" in [first for first, second in seen]]))
asyncio.run(main())`,
          {}
        )
        assert.deepStrictEqual(printed, [
          1,
          [true, true, true, "renew", "outcome"],
          ["outcome", "clm_1"],
          false
        ])
      })
  )

  it.effect.skipIf(missing)("verifies the signatures of webhooks", () =>
    Effect.gen(function* () {
      const secret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
      const older = "whsec_//////////////////////////////////////////8="
      const keyOf = (text: string) => Result.getOrThrow(makeSigningKey(Redacted.make(text)))
      const now = Math.floor(Date.now() / 1000)
      const body = `{"name":"Zoë ☂"}`
      const signatureAt = (timestamp: number) =>
        signatureHeaders(
          { current: keyOf(secret), previous: keyOf(older) },
          { eventId: "evt_1", eventType: "test", timestamp, body }
        )["X-Svc-Signature"]
      const cases = [
        [body, signatureAt(now), secret],
        [body, signatureAt(now), older],
        [`${body} `, signatureAt(now), secret],
        [body, signatureAt(now - 400), secret],
        [body, signatureAt(now + 400), secret],
        [body, signatureAt(now), secret.replace("AAEC", "AAED")],
        [body, "", secret]
      ]
      const printed = yield* python(
        `
def verified(body, signature, secret):
    try:
        return verify_webhook(body.encode(), signature, secret)["name"]
    except ValueError:
        return None
print(json.dumps([verified(*case) for case in json.loads(os.environ["CASES"])]))`,
        { CASES: JSON.stringify(cases) }
      )
      assert.deepStrictEqual(printed, ["Zoë ☂", "Zoë ☂", null, null, null, null, null])
    })
  )
})
