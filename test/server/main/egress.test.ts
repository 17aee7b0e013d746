import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { Countersign } from "../../../src/testing/index.ts"
import { send, service } from "../../support/service.ts"

/** One address for the operator's model servers, another for receivers in development. */
const MODELS = "http://127.0.0.2:9/v1"
const RECEIVERS = "http://127.0.0.1:9/v1"

const environment = {
  COUNTERSIGN_PROVIDER_ALLOW: "127.0.0.2/32:9",
  COUNTERSIGN_EGRESS_ALLOW: "127.0.0.1:9",
  COUNTERSIGN_EGRESS_HTTP: "true"
}

layer(service({ environment }), { excludeTestServices: true })(
  "Egress settings of the running service",
  (it) => {
    const shapes = { input_schema: { type: "object" }, answer_schema: { type: "object" } }
    it.effect.each([
      ["/v1/notification-endpoints", (url: string) => ({ url }), RECEIVERS, MODELS],
      ["/v1/telemetry-destinations", (url: string) => ({ url }), RECEIVERS, MODELS],
      [
        "/v1/tasks",
        (base_url: string) => ({ name: "a", ...shapes, provider: { kind: "openai", base_url, model: "m" } }),
        MODELS,
        RECEIVERS
      ]
    ] as const)("for one purpose is not open for another: %s", ([path, bodyOf, open, closed]) =>
      Effect.gen(function* () {
        const key = yield* (yield* Countersign).key()
        const post = (url: string) => send(path, { method: "POST", key, body: JSON.stringify(bodyOf(url)) })
        const refused = yield* post(closed)
        assert.deepStrictEqual([refused.status, refused.body["code"]], [400, "INVALID_URL"])
        assert.strictEqual((yield* post(open)).status, 201)
      })
    )
  }
)
