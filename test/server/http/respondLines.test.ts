import { assert, layer } from "@effect/vitest"
import { DateTime, Effect, Exit, Schema, Stream } from "effect"
import { Organizations } from "../../../src/server/identity/Organizations.ts"
import { Countersign } from "../../../src/testing/index.ts"
import { validatorOf } from "../../api/openApiDocument/validation.ts"
import { appendRows, auditRow } from "../../support/audit.ts"
import { createDesk } from "../../support/feedback.ts"
import { send, service } from "../../support/service.ts"
import { createSortingTask, createTeamClients, sortingExamples } from "../../support/tasks.ts"

const json = { accept: "application/json" }

const decodePage = Schema.decodeUnknownSync(Schema.Array(Schema.Record(Schema.String, Schema.Unknown)))

/** Every page of an operation as JSON. */
const pagesOf = Effect.fnUntraced(function* (
  path: string,
  noun: string,
  options: Parameters<typeof send>[1]
) {
  const items: Array<Record<string, unknown>> = []
  const sizes: Array<number> = []
  for (let cursor: unknown = undefined; cursor !== null;) {
    const query = typeof cursor === "string" ? `${path.includes("?") ? "&" : "?"}cursor=${cursor}` : ""
    const { body, headers, status } = yield* send(path + query, options)
    assert.strictEqual(status, 200, JSON.stringify(body))
    assert.strictEqual(headers.get("content-type"), "application/json")
    const page = decodePage(body[noun])
    items.push(...page)
    sizes.push(page.length)
    cursor = body["next_cursor"]
    assert.isBelow(sizes.length, 20)
  }
  return { items, sizes }
})

layer(service(), { excludeTestServices: true })("respondLines", (it) => {
  it.effect("an export is cut, and does not look complete, when its key is revoked", () =>
    Effect.gen(function* () {
      const { client, url } = yield* Countersign
      const { apiKeys } = yield* client({}, "cut export")
      const { key, secret } = yield* apiKeys.create({ payload: { name: "reader", preset: "admin" } })
      const org_id = yield* (yield* Organizations).ensure("cut export")
      // More than the connection's buffers hold.
      for (let parts = 0; parts < 32; parts++) {
        const row = auditRow(org_id, yield* DateTime.now, { text: "x".repeat(100_000) })
        yield* appendRows(yield* Effect.replicateEffect(row, 10))
      }
      const answer = yield* Effect.promise(() =>
        fetch(`${url}/v1/audit-log/export`, { headers: { authorization: `Bearer ${secret}` } })
      )
      assert.strictEqual(answer.status, 200)
      yield* apiKeys.revoke({ params: { id: key.id } })
      const read = yield* Effect.exit(Effect.tryPromise(() => answer.text()))
      assert.isTrue(Exit.isFailure(read))
    })
  )

  it.effect("a dataset is read in pages of JSON, with the same examples as its JSON Lines", () =>
    Effect.gen(function* () {
      const { admin } = yield* createTeamClients("pages of JSON")
      const key = yield* (yield* Countersign).key({}, "pages of JSON")
      const { dataset } = yield* createSortingTask(
        admin,
        ...Array.from({ length: 5 }, (_, index) => [`text ${index}`, "billing"] as const)
      )
      const path = `/v1/datasets/${dataset.id}/export`
      const lines = yield* Stream.runCollect(yield* admin.datasets.export({ params: { id: dataset.id } }))
      const { items, sizes } = yield* pagesOf(`${path}?limit=2`, "examples", { headers: json, key })
      assert.deepStrictEqual(sizes, [2, 2, 1])
      assert.deepStrictEqual(items, [...lines])
      const chats = yield* pagesOf(`${path}/chats?limit=3`, "chats", { headers: json, key })
      assert.deepStrictEqual(chats.sizes, [3, 2])
      // JSON Lines are for clients that accept anything, and for those that prefer them.
      for (const accept of ["*/*", "application/x-ndjson", "application/json;q=0.5, application/x-ndjson"]) {
        const { headers } = yield* send(path, { headers: { accept }, key })
        assert.match(headers.get("content-type") ?? "", /^application\/x-ndjson/, accept)
      }
      for (const accept of ["application/json", "application/json, application/x-ndjson, */*"]) {
        const { headers } = yield* send(path, { headers: { accept }, key })
        assert.match(headers.get("content-type") ?? "", /^application\/json/, accept)
      }
      const two = yield* Stream.runCollect(
        yield* admin.datasets.export({ params: { id: dataset.id }, query: { limit: 2 } })
      )
      assert.deepStrictEqual([...two], lines.slice(0, 2))
    })
  )

  it.effect("a page ends before it is too large, and one line that is larger is a page of its own", () =>
    Effect.gen(function* () {
      const { admin } = yield* createTeamClients("large pages of JSON")
      const key = yield* (yield* Countersign).key({}, "large pages of JSON")
      const long = "x".repeat(120_000)
      const { dataset } = yield* createSortingTask(
        admin,
        ...Array.from({ length: 4 }, (_, index) => [`${index}${long}`, "billing"] as const),
        [`9${long.repeat(3)}`, "billing"]
      )
      const { sizes } = yield* pagesOf(`/v1/datasets/${dataset.id}/export`, "examples", {
        headers: json,
        key: key
      })
      assert.deepStrictEqual(sizes, [1, 2, 2])
    })
  )

  it.effect("the audit log is read in pages of JSON, in the order of its chain", () =>
    Effect.gen(function* () {
      const { admin } = yield* createTeamClients("log in JSON")
      const key = yield* (yield* Countersign).key({}, "log in JSON")
      yield* createSortingTask(admin, ["one", "billing"])
      const { items, sizes } = yield* pagesOf("/v1/audit-log/export?limit=2", "entries", {
        headers: json,
        key: key
      })
      assert.isAbove(sizes.length, 1)
      assert.deepStrictEqual(
        items.map(({ position }) => position),
        items.map((_, index) => index + 1)
      )
      const bad = yield* send("/v1/audit-log/export?cursor=bm90", { headers: json, key })
      assert.strictEqual(bad.status, 400)
    })
  )

  it.effect("a page of preference pairs counts the examples that have none", () =>
    Effect.gen(function* () {
      const { admin, correct, params, run, stage } = yield* createDesk("pairs in JSON")
      const { id } = yield* correct(yield* run("my invoice"), { category: "billing" })
      yield* stage(id)
      const { base_dataset_id, feedback_revision } = yield* admin.feedback.previewPromotion({
        params,
        query: {}
      })
      const { dataset } = yield* admin.feedback.promote({
        params,
        payload: { base_dataset_id, expected_feedback_revision: feedback_revision }
      })
      const { id: version } = yield* admin.datasets.create({
        params,
        payload: { base_dataset_id: dataset.id, examples: sortingExamples(["a", "other"], ["b", "other"]) }
      })
      const { secret } = yield* admin.apiKeys.create({ payload: { name: "exports", preset: "admin" } })
      const { items, sizes } = yield* pagesOf(`/v1/datasets/${version}/export/preferences?limit=1`, "pairs", {
        headers: json,
        key: secret
      })
      assert.lengthOf(items, 1)
      assert.isAbove(sizes.length, 2)
    })
  )

  it.effect("a test of rules answers with one JSON body", () =>
    Effect.gen(function* () {
      const key = yield* (yield* Countersign).key({}, "rules in JSON")
      const { body, status } = yield* send("/v1/approval-rules/test", {
        method: "POST",
        headers: json,
        key,
        body: JSON.stringify({ rules: [] })
      })
      assert.strictEqual(status, 200, JSON.stringify(body))
      assert.deepStrictEqual(body["steps"], [])
      const isResult = validatorOf({ $ref: "#/components/schemas/RuleTestResult" })
      assert.isTrue(isResult(body["result"]), JSON.stringify(isResult.errors))
    })
  )
})
