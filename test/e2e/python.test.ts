import { assert, layer } from "@effect/vitest"
import { Effect, Redacted, Result } from "effect"
import { execFile, spawnSync } from "node:child_process"
import { fileURLToPath } from "node:url"
import { makeSigningKey, signatureHeaders } from "../../src/domain/delivery/WebhookSignature.ts"
import { Countersign } from "../../src/testing/index.ts"
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
          "This call was executed before, so it was not executed again.",
          ["tool:outcome"],
          true
        ])
      })
  )

  it.effect.skipIf(missing)("waits on from the oldest event after its cursor expired", () =>
    Effect.gen(function* () {
      const printed = yield* python(
        `
seen = []
decisions = iter(["pending", "pending", "allow"])
decided = {"id": 9, "type": "approval:decided", "approval": {"approval_id": "apr_1"}}
streams = iter([(200, {"id": 3, "type": "approval:expiring"}), (410, {"code": "CURSOR_EXPIRED"}), (200, decided)])
def answer(request):
    if request.method == "POST":
        seen.append("step")
        return httpx.Response(200, json={"decision": next(decisions), "approval_id": "apr_1"})
    seen.append(request.headers.get("last-event-id"))
    status, body = next(streams)
    if status == 200:
        return httpx.Response(200, content=f"data: {json.dumps(body)}\\n\\n".encode())
    headers = {"content-type": "application/problem+json", "x-request-id": "req_1"}
    return httpx.Response(status, json=body, headers=headers)
async def main():
    client = Countersign("http://localhost", "csk_")
    client.http = httpx.AsyncClient(base_url="http://localhost", transport=httpx.MockTransport(answer))
    await Session(client, "ses_1").ask("refund", "refund", {})
    print(json.dumps(seen))
asyncio.run(main())`,
        {}
      )
      // The first stream breaks off after event 3, and the second is refused.
      assert.deepStrictEqual(printed, ["step", null, "3", "step", null, "step"])
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
