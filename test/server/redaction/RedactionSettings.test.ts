import { assert, layer } from "@effect/vitest"
import { Effect, Result } from "effect"
import { SqlClient } from "effect/sql"
import { OrgId, StepId } from "../../../src/domain/Ids.ts"
import { raiseSecretsVersion } from "../../../src/server/secrets/secretsVersion.ts"
import { transaction } from "../../../src/server/store/transaction.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { orgIdOf } from "../../support/deletion.ts"
import { createDesk, createNotesDesk, tagOf } from "../../support/feedback.ts"
import { pointersOf, send, service } from "../../support/service.ts"

const employee = { name: "Employee number", pattern: "\\bEMP-[0-9]{6}\\b" }
const car = { name: "Car number", pattern: "\\bCAR-[0-9]{2}\\b" }
/** In parts, so that no scanner reports this file. */
const token = ["ghp", "1Q2w3E4r5T6y7U8i9O0pAsDfGhJkLzXcVbNm"].join("_")

layer(service(), { excludeTestServices: true })("RedactionSettings", (it) => {
  it.effect("an organization starts without settings, and each replacement raises the revision", () =>
    Effect.gen(function* () {
      const admin = yield* (yield* Countersign).client({}, "settings")
      const none = { patterns: [], exceptions: [], personal_data: [], redact_runs: false, revision: 0 }
      assert.deepStrictEqual(yield* admin.redactionSettings.get({}), none)
      const put = yield* admin.redactionSettings.replace({
        payload: { patterns: [employee], personal_data: ["iban", "email_address"], revision: 0 }
      })
      assert.deepStrictEqual(put, {
        patterns: [employee],
        exceptions: [],
        personal_data: ["iban", "email_address"],
        redact_runs: false,
        revision: 1
      })
      assert.deepStrictEqual(yield* admin.redactionSettings.get({}), put)
      const refused = yield* Effect.flip(admin.redactionSettings.replace({ payload: { revision: 0 } }))
      assert.deepInclude(refused, { _tag: "REDACTION_SETTINGS_CHANGED", current_revision: 1 })
      assert.deepStrictEqual(yield* admin.redactionSettings.replace({ payload: {} }), {
        ...none,
        revision: 2
      })
      const { entries } = yield* admin.auditLog.list({ query: { action: "redaction_settings.replaced" } })
      assert.deepStrictEqual(
        entries.map(({ detail }) => detail),
        [
          { revision: 2, patterns: 0, exceptions: 0, personal_data: [], redact_runs: false },
          {
            revision: 1,
            patterns: 1,
            exceptions: 0,
            personal_data: ["iban", "email_address"],
            redact_runs: false
          }
        ]
      )
    })
  )

  it.effect("a key that cannot read the content changes the settings only so that they redact more", () =>
    Effect.gen(function* () {
      const { client } = yield* Countersign
      const admin = yield* client({}, "looser")
      const clerk = yield* client(
        { name: "clerk", scopes: ["org_config.read", "org_config.write"] },
        "looser"
      )
      const strict = {
        patterns: [employee],
        exceptions: [car],
        personal_data: ["iban"],
        redact_runs: true
      } as const
      yield* admin.redactionSettings.replace({ payload: strict })
      for (const [payload, pointer] of [
        [{ ...strict, patterns: [] }, "#/patterns"],
        [{ ...strict, exceptions: [car, { name: "all", pattern: ".+" }] }, "#/exceptions"],
        [{ ...strict, personal_data: [] }, "#/personal_data"],
        [{ ...strict, redact_runs: false }, "#/redact_runs"]
      ] as const) {
        const refused = yield* Effect.flip(clerk.redactionSettings.replace({ payload }))
        assert.deepInclude(refused, { _tag: "INSUFFICIENT_SCOPE", required_scope: "runs.read" })
        assert.deepStrictEqual(pointersOf(refused), [pointer])
      }
      const stricter = { ...strict, patterns: [employee, car], exceptions: [] }
      assert.strictEqual((yield* clerk.redactionSettings.replace({ payload: stricter })).revision, 2)
      assert.strictEqual((yield* admin.redactionSettings.replace({ payload: {} })).revision, 3)
    })
  )

  it.effect("a preview redacts a value by the stored settings or by others, and changes none", () =>
    Effect.gen(function* () {
      const admin = yield* (yield* Countersign).client({}, "previews")
      yield* admin.redactionSettings.replace({ payload: { patterns: [employee] } })
      const value = { note: `EMP-123456 and CAR-12`, keys: [token], count: 3 }
      const preview = (settings?: object) =>
        admin.redactionSettings.preview({
          payload: { value, ...(settings === undefined ? {} : { settings }) }
        })
      assert.deepStrictEqual(yield* preview(), {
        value: { note: "[REDACTED] and CAR-12", keys: ["[REDACTED]"], count: 3 },
        count: 2,
        pointers: ["#/value/note", "#/value/keys/0"]
      })
      assert.deepStrictEqual(
        yield* preview({ patterns: [car], exceptions: [{ name: "test key", pattern: "ghp_.*" }] }),
        {
          value: { note: "EMP-123456 and [REDACTED]", keys: [token], count: 3 },
          count: 1,
          pointers: ["#/value/note"]
        }
      )
      assert.strictEqual((yield* admin.redactionSettings.get({})).revision, 1)
      const refused = yield* Effect.flip(
        preview({ patterns: [employee, { name: "twice", pattern: "(a)\\1" }] })
      )
      assert.strictEqual(refused.code, "INVALID_REQUEST")
      assert.deepStrictEqual("errors" in refused ? refused.errors?.map(({ pointer }) => pointer) : [], [
        "#/settings/patterns/1/pattern"
      ])
    })
  )

  it.effect("a preview removes the organization's own credentials, whatever the settings except", () =>
    Effect.gen(function* () {
      const countersign = yield* Countersign
      const admin = yield* countersign.client({}, "own previews")
      const { secret } = yield* admin.notificationEndpoints.create({
        payload: { url: "http://127.0.0.1:9/hook" }
      })
      const { value } = yield* admin.redactionSettings.preview({
        payload: { value: `it is ${secret}`, settings: { exceptions: [{ name: "all", pattern: ".+" }] } }
      })
      assert.strictEqual(value, "it is [REDACTED]")
      const foreign = yield* countersign.client({}, "other previews")
      const seen = yield* foreign.redactionSettings.preview({
        payload: { value: secret.slice(6), settings: {} }
      })
      assert.strictEqual(seen.count, 0)
    })
  )

  it.effect("of concurrent replacements of one revision exactly one is accepted", () =>
    Effect.gen(function* () {
      const admin = yield* (yield* Countersign).client({}, "settings race")
      const results = yield* Effect.all(
        Array.from({ length: 6 }, (_, index) =>
          Effect.result(
            admin.redactionSettings.replace({
              payload: { revision: 0, patterns: [{ name: `number ${index}`, pattern: `x${index}` }] }
            })
          )
        ),
        { concurrency: "unbounded" }
      )
      const [won, ...others] = results.filter(Result.isSuccess)
      assert.lengthOf(others, 0)
      assert.deepStrictEqual(yield* admin.redactionSettings.get({}), won?.success)
    })
  )

  it.effect("an expression that cannot be used is refused with its pointer, and nothing is stored", () =>
    Effect.gen(function* () {
      const admin = yield* (yield* Countersign).client({}, "bad settings")
      const refused = yield* Effect.flip(
        admin.redactionSettings.replace({
          payload: {
            patterns: [employee, { name: "twice", pattern: "(a)\\1" }],
            exceptions: [{ name: "all", pattern: ".*" }]
          }
        })
      )
      assert.strictEqual(refused._tag, "INVALID_REQUEST")
      if (refused._tag === "INVALID_REQUEST") {
        assert.deepStrictEqual(
          refused.errors?.map(({ pointer }) => pointer),
          ["#/patterns/1/pattern", "#/exceptions/0/pattern"]
        )
      }
      assert.strictEqual((yield* admin.redactionSettings.get({})).revision, 0)
    })
  )

  it.effect("only a key with org_config.write changes the settings", () =>
    Effect.gen(function* () {
      const countersign = yield* Countersign
      for (const preset of ["reviewer", "runtime", "integration"] as const) {
        const client = yield* countersign.client({ preset }, "scopes of settings")
        assert.strictEqual(yield* tagOf(client.redactionSettings.get({})), "INSUFFICIENT_SCOPE")
        assert.strictEqual(
          yield* tagOf(client.redactionSettings.replace({ payload: {} })),
          "INSUFFICIENT_SCOPE"
        )
      }
    })
  )

  it.effect(
    "settings apply to the next correction and review note of the organization, and to no other",
    () =>
      Effect.gen(function* () {
        const ours = yield* createNotesDesk("own rules")
        const theirs = yield* createNotesDesk("no rules")
        const correct = ({ integration, trace_id }: typeof ours, note: string) =>
          integration.feedback.create({
            payload: { inference_log_id: trace_id, score: -1, correction: { note } }
          })
        const note = `EMP-004711 pays from DE89 3704 0044 0532 0130 00 with ${token}`
        assert.strictEqual(
          (yield* correct(ours, note)).correction?.["note"],
          note.replace(token, "[REDACTED]")
        )
        yield* ours.admin.redactionSettings.replace({
          payload: {
            patterns: [employee],
            exceptions: [{ name: "Sample token", pattern: token }],
            personal_data: ["iban"]
          }
        })
        const created = yield* correct(ours, note)
        assert.strictEqual(created.correction?.["note"], `[REDACTED] pays from [REDACTED] with ${token}`)
        assert.strictEqual(created.redaction_warning, "Protected values were removed from #/correction/note")
        const rejected = yield* ours.reviewer.feedback.reject({
          params: { id: created.id },
          payload: { note: "ask EMP-004711" }
        })
        assert.strictEqual(rejected.review_note, "ask [REDACTED]")
        assert.strictEqual(
          (yield* correct(theirs, note)).correction?.["note"],
          note.replace(token, "[REDACTED]")
        )
      })
  )

  it.effect("settings that another replica stored apply at once", () =>
    Effect.gen(function* () {
      const { admin, integration, trace_id } = yield* createNotesDesk("other replica")
      const redacted = Effect.map(
        integration.feedback.create({
          payload: { inference_log_id: trace_id, score: -1, correction: { note: "EMP-004711" } }
        }),
        ({ correction }) => correction?.["note"]
      )
      yield* admin.redactionSettings.replace({ payload: { patterns: [employee] } })
      assert.strictEqual(yield* redacted, "[REDACTED]")
      // Written as by another replica: this one sees the change in the database alone.
      const sql = yield* SqlClient.SqlClient
      const org_id = OrgId.make(yield* orgIdOf("other replica"))
      yield* transaction(
        Effect.andThen(
          sql`
            UPDATE redaction_settings
            SET rules = ${JSON.stringify({ patterns: [], exceptions: [], personal_data: [], redact_runs: false })}
            WHERE org_id = ${org_id}
          `,
          raiseSecretsVersion(org_id)
        )
      )
      assert.strictEqual(yield* redacted, "EMP-004711")
    })
  )

  it.effect("secrets in the input of a run do not enter a dataset and do not leave by an export", () =>
    Effect.gen(function* () {
      const { admin, correct, dataset, params, reviewer, run, stage } = yield* createDesk("inputs")
      yield* admin.redactionSettings.replace({ payload: { patterns: [employee] } })
      const trace_id = yield* run(`use ${token} of EMP-004711`)
      const { id } = yield* stage((yield* correct(trace_id, { category: "billing" })).id)
      const { feedback_revision } = yield* reviewer.feedback.previewPromotion({ params })
      const { dataset: made, redaction_warning } = yield* admin.feedback.promote({
        params,
        payload: { base_dataset_id: dataset.id, expected_feedback_revision: feedback_revision }
      })
      assert.strictEqual(redaction_warning, `Protected values were removed from #/input/text of ${id}`)
      const { examples } = yield* admin.datasets.listExamples({ params: { id: made.id } })
      assert.deepInclude(
        examples.map(({ input }) => input),
        { text: "use [REDACTED] of [REDACTED]" }
      )
      // The run stays as it was logged.
      const { input } = yield* reviewer.feedback.get({ params: { id } })
      assert.deepStrictEqual(input, { text: `use ${token} of EMP-004711` })

      const next = yield* admin.datasets.create({
        params,
        payload: {
          base_dataset_id: made.id,
          examples: [{ input: { text: "of EMP-000001 and CAR-77" }, answer: { category: "other" } }]
        }
      })
      // Stored before the pattern for it.
      yield* admin.redactionSettings.replace({ payload: { patterns: [employee, car] } })
      const exported = yield* send(`/v1/datasets/${next.id}/export`, {
        key: yield* (yield* Countersign).key({}, "inputs")
      })
      const text = String(exported.body["text"])
      assert.notInclude(text, "EMP-000001")
      assert.notInclude(text, "CAR-77")
      assert.include(text, '"redaction_warning":"Protected values were removed from #/input/text"')
    })
  )

  it.effect(
    "runs are logged as they are, or redacted from the moment that the organization switches it on",
    () =>
      Effect.gen(function* () {
        const { admin, correct, params, reviewer } = yield* createDesk("redacted runs")
        const logged = Effect.gen(function* () {
          const { answer, trace_id } = yield* admin.tasks.run({
            params,
            payload: {
              input: { text: `use ${token}` },
              answer: { category: "other" },
              metadata: { by: token }
            }
          })
          assert.deepStrictEqual(answer, { category: "other" })
          const { id } = yield* correct(trace_id, { category: "billing" })
          const { input } = yield* reviewer.feedback.get({ params: { id } })
          const sql = yield* SqlClient.SqlClient
          const rows = yield* sql<{ readonly metadata: string }>`
          SELECT metadata::text FROM runs WHERE trace_id = ${trace_id}
        `
          return [input["text"], rows[0]?.metadata]
        })
        const plain = [`use ${token}`, JSON.stringify({ by: token })]
        const clean = ["use [REDACTED]", '{"by":"[REDACTED]"}']
        assert.deepStrictEqual(yield* logged, plain)
        assert.deepStrictEqual(yield* logged, plain)
        yield* admin.redactionSettings.replace({ payload: { redact_runs: true } })
        assert.deepStrictEqual(yield* logged, clean)
        assert.deepStrictEqual(yield* logged, clean)
        yield* admin.redactionSettings.replace({ payload: {} })
        assert.deepStrictEqual(yield* logged, plain)
      })
  )

  it.effect("a comment on an approval is stored and answered without secrets", () =>
    Effect.gen(function* () {
      const countersign = yield* Countersign
      const agent = yield* countersign.client({ preset: "runtime" }, "comments")
      const reviewer = yield* countersign.client({ preset: "reviewer", name: "Ada" }, "comments")
      const admin = yield* countersign.client({}, "comments")
      yield* admin.redactionSettings.replace({ payload: { patterns: [employee] } })
      const { session_id } = yield* agent.sessions.create({})
      const { approval_id } = yield* agent.sessions.step({
        params: { id: session_id },
        payload: { step_id: StepId.make("pay"), tool: "payments.refund", action_class: "write" }
      })
      if (approval_id === null) return assert.fail("the step waits for a person")
      const decided = yield* reviewer.approvals.decide({
        params: { id: approval_id },
        payload: { decision: "approve", comment: `EMP-004711 agreed, password: hunter2, ${token}` }
      })
      assert.strictEqual(decided.comment, "[REDACTED] agreed, password: [REDACTED], [REDACTED]")
      const stored = yield* agent.approvals.get({ params: { id: approval_id } })
      assert.strictEqual(stored.comment, decided.comment)
      const sql = yield* SqlClient.SqlClient
      const rows = yield* sql<{ readonly all: string }>`
        SELECT approvals::text || (SELECT coalesce(string_agg(session_events::text, ''), '') FROM session_events) AS all
        FROM approvals
        WHERE approval_id = ${approval_id}
      `
      assert.notInclude(rows[0]?.all, "hunter2")
    })
  )
})
