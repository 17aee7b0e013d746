import { assert, layer } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import type { JsonObject } from "../../../../src/domain/tasks/Dataset.ts"
import { Countersign } from "../../../../src/testing/index.ts"
import { createDesk, createNotesDesk } from "../../../support/feedback.ts"
import { send, service } from "../../../support/service.ts"
import { sortingTask } from "../../../support/tasks.ts"

layer(service({ environment: { COUNTERSIGN_PROVIDER_ALLOW: "127.0.0.0/8" } }), { excludeTestServices: true })(
  "redactCorrection",
  (it) => {
    it.effect(
      "protected values are redacted and a warning names their fields; field names are not considered",
      () =>
        Effect.gen(function* () {
          const { integration, reviewer, trace_id } = yield* createNotesDesk("redaction")
          const created = yield* integration.feedback.create({
            payload: {
              inference_log_id: trace_id,
              score: -1,
              correction: {
                note: "The password is hunter2",
                session: "monday morning",
                token: "order-4411",
                more: [{ url: "postgres://ada:tr0ub4dor@db/x" }]
              }
            }
          })
          assert.deepStrictEqual(created.correction, {
            note: "The password is [REDACTED]",
            session: "monday morning",
            token: "order-4411",
            more: [{ url: "postgres://ada:[REDACTED]@db/x" }]
          })
          assert.strictEqual(
            created.redaction_warning,
            "Protected values were removed from #/correction/note, #/correction/more/0/url"
          )
          const {
            answer: _,
            input: __,
            run: ___,
            ...stored
          } = yield* reviewer.feedback.get({ params: { id: created.id } })
          assert.deepStrictEqual(stored, created)
          const sql = yield* SqlClient.SqlClient
          const rows = yield* sql<{
            readonly all: string
          }>`SELECT feedback::text AS all FROM feedback WHERE feedback_id = ${created.id}`
          assert.notInclude(rows[0]?.all, "hunter2")
          assert.notInclude(rows[0]?.all, "tr0ub4dor")
        })
    )

    it.effect(
      "the organization's own signing secrets, provider keys and API keys are redacted immediately after they are set",
      () =>
        Effect.gen(function* () {
          const { admin, integration, trace_id } = yield* createNotesDesk("own secrets")
          const redacted = (note: string) =>
            Effect.map(
              integration.feedback.create({
                payload: { inference_log_id: trace_id, score: -1, correction: { note } }
              }),
              ({ correction }) => correction?.["note"]
            )
          assert.strictEqual(yield* redacted("nothing to see"), "nothing to see")
          const { endpoint, secret } = yield* admin.notificationEndpoints.create({
            payload: { url: "http://127.0.0.1:9/hook" }
          })
          const coded = secret.slice("whsec_".length)
          assert.strictEqual(yield* redacted(`x ${secret} y`), "x [REDACTED] y")
          assert.strictEqual(yield* redacted(`only ${coded} of it`), "only [REDACTED] of it")
          assert.strictEqual(yield* redacted(Buffer.from(coded).toString("base64")), "[REDACTED]")
          assert.strictEqual(yield* redacted(`${coded.slice(0, 20)}\r\n  ${coded.slice(20)}`), "[REDACTED]")
          assert.strictEqual(yield* redacted([...coded].join("\u200b")), "[REDACTED]")
          const renewed = yield* admin.notificationEndpoints.rotateSecret({ params: { id: endpoint.id } })
          const newer = renewed.secret.slice("whsec_".length)
          assert.strictEqual(yield* redacted(`${coded} ${newer}`), "[REDACTED] [REDACTED]")

          const header = "Basil-the-third-likes-marmalade"
          yield* admin.telemetryDestinations.create({
            payload: { url: "http://127.0.0.1:9/v1/traces", headers: { authorization: `Bearer ${header}` } }
          })
          assert.strictEqual(
            yield* redacted(`it is ${header}, or Bearer ${header}`),
            "it is [REDACTED], or [REDACTED]"
          )

          const provider = "Aunt-Agatha-keeps-bees-in-the-attic"
          const createWithKey = (api_key: string) =>
            admin.tasks.create({
              payload: {
                ...sortingTask,
                provider: {
                  kind: "openai",
                  base_url: "http://127.0.0.1:8009/v1",
                  model: "m",
                  api_key: Redacted.make(api_key)
                }
              }
            })
          yield* createWithKey(provider)
          assert.strictEqual(yield* redacted(`see ${provider}!`), "see [REDACTED]!")
          // As if another replica, whose clock is ahead, had written the key.
          const sql = yield* SqlClient.SqlClient
          yield* sql`UPDATE provider_keys SET updated_at = updated_at + interval '1 hour'`
          assert.strictEqual(yield* redacted("nothing new"), "nothing new")
          const later = "Uncle-Albert-keeps-a-lizard-in-the-cellar"
          yield* createWithKey(later)
          assert.strictEqual(yield* redacted(`see ${later}!`), "see [REDACTED]!")
          const gateway = "Cousin-Clara-plays-the-tuba-on-the-roof"
          const { id: task_id } = yield* admin.tasks.create({ payload: sortingTask })
          yield* admin.tasks.update({
            params: { id: task_id },
            payload: {
              provider: {
                kind: "anthropic",
                base_url: "http://127.0.0.1:8009/v1",
                model: "m",
                headers: { "x-gateway-token": Redacted.make(gateway) }
              }
            }
          })
          assert.strictEqual(yield* redacted(`see ${gateway}!`), "see [REDACTED]!")
          const key = Redacted.value(yield* (yield* Countersign).key({}, "own secrets"))
          assert.strictEqual(yield* redacted(`key ${key}`), "key [REDACTED]")
          const otherOrg = yield* createNotesDesk("not own secrets")
          const other = yield* otherOrg.integration.feedback.create({
            payload: { inference_log_id: otherOrg.trace_id, score: -1, correction: { note: provider } }
          })
          assert.deepStrictEqual(other.correction, { note: provider })
        })
    )

    it.effect("a correction with one text of megabytes is searched whole", () =>
      Effect.gen(function* () {
        const { integration, trace_id } = yield* createNotesDesk("searched whole")
        const words = "a b ".repeat(500_000)
        const created = yield* integration.feedback.create({
          payload: {
            inference_log_id: trace_id,
            score: -1,
            correction: { note: `${words}password: hunter2 ${words.slice(2)}` }
          }
        })
        assert.strictEqual(created.redaction_warning, "Protected values were removed from #/correction/note")
        assert.deepStrictEqual(created.correction, { note: `${words}password: [REDACTED] ${words.slice(2)}` })
      })
    )

    it.effect(
      "a correction that matches the schema only with its protected value is refused, and the field is named",
      () =>
        Effect.gen(function* () {
          const { integration, trace_id } = yield* createNotesDesk("unsafe")
          const key = Redacted.value(yield* (yield* Countersign).key({}, "unsafe"))
          const refused = yield* Effect.flip(
            integration.feedback.create({
              payload: { inference_log_id: trace_id, score: -1, correction: { note: "a", code: key } }
            })
          )
          assert.strictEqual(refused._tag, "CORRECTION_NEEDS_SAFE_VALUE")
          if (refused._tag === "CORRECTION_NEEDS_SAFE_VALUE") {
            assert.strictEqual(refused.status, 422)
            assert.strictEqual(refused.errors?.[0]?.pointer, "#/correction/code")
            assert.notInclude(JSON.stringify(refused), key)
          }
          assert.lengthOf((yield* integration.feedback.list({})).feedback, 0)
        })
    )

    it.effect(
      "a problem does not contain a protected value, even if it is the name of an unexpected field",
      () =>
        Effect.gen(function* () {
          const { correct, run } = yield* createDesk("shown")
          const key = Redacted.value(yield* (yield* Countersign).key({}, "shown"))
          const refused = yield* Effect.flip(correct(yield* run("a"), { category: "other", [key]: 1 }))
          assert.strictEqual(refused._tag, "INVALID_CORRECTION")
          assert.notInclude(JSON.stringify(refused), key)
          if (refused._tag === "INVALID_CORRECTION")
            assert.strictEqual(refused.errors?.[0]?.pointer, "#/correction/%5BREDACTED%5D")
        })
    )

    it.effect(
      "corrections up to 4 MiB are searched, and what cannot be searched is refused with its pointer",
      () =>
        Effect.gen(function* () {
          const { integration, trace_id } = yield* createNotesDesk("large")
          const create = (correction: JsonObject) =>
            integration.feedback.create({ payload: { inference_log_id: trace_id, score: -1, correction } })
          const pages = Array.from(
            { length: 30 },
            (_, page) => `page ${page}: ${"the quick brown fox ".repeat(6_000)}`
          )
          const large = yield* create({ note: "password: hunter2", pages })
          assert.strictEqual(large.redaction_warning, "Protected values were removed from #/correction/note")
          const many = yield* Effect.flip(
            create({ note: "a", list: Array.from({ length: 100_001 }, () => 1) })
          )
          assert.strictEqual(many._tag, "PAYLOAD_TOO_LARGE")
          const key = yield* (yield* Countersign).key({}, "large")
          const body = `{"inference_log_id":"${trace_id}","score":1,"correction":{"note":"${"x".repeat(4 * 2 ** 20)}"}}`
          const over = yield* send("/v1/feedback", { method: "POST", key, body })
          assert.strictEqual(over.status, 413)
        })
    )
  }
)
