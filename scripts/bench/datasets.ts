/**
 * Large datasets: import rate; time to derive a version with ten corrections from a million examples, beside the same from a thousand;
 * time to read a page of the newest and of the first version, to compare two versions, and to find the nearest example among short and
 * among long texts. Each look-up runs 100 times, because PostgreSQL plans the first five executions of a prepared statement for their
 * values and may use a generic plan for the later ones.
 */
import { Context, Effect, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { Authorized } from "../../src/api/Authorization.ts"
import type { DatasetId, ExampleId, TaskId } from "../../src/domain/Ids.ts"
import { OrgId } from "../../src/domain/Ids.ts"
import { transaction } from "../../src/server/store/transaction.ts"
import { DatasetChanges } from "../../src/server/console/DatasetChanges.ts"
import { Datasets } from "../../src/server/tasks/Datasets.ts"
import { OPERATOR } from "../../src/server/tasks/Datasets/importLines.ts"
import { findNearest } from "../../src/server/tasks/Datasets/findNearest.ts"
import { getVersion } from "../../src/server/tasks/Datasets/versionRows.ts"
import { StoreClock } from "../../src/server/store/StoreClock.ts"
import { Countersign } from "../../src/testing/index.ts"
import { atMost, line, machine, median } from "./measure.ts"

const large = Number(process.env["EXAMPLES"] ?? 1_000_000)
/** Examples imported line by line. The database makes the rest as copies of them. */
const imported = Math.min(large, 20_000)
const small = 1_000
const rounds = 20
const corrections = 10
const lookUps = 100

/** Words of a short text, and of a long one such as an e-mail. */
const short = 24
const long = 150
/** Examples with long texts. */
const ofLong = 5_000

/** A vocabulary with word frequencies as in a natural language (Zipf's law). */
const vocabulary = 50_000
const word = (random: number): string => `w${Math.floor(vocabulary ** random)}`

/** A seeded generator of numbers from 0 to 1 (Mulberry32), so that every run uses the same texts. */
const seeded = (seed: number) => () => {
  seed = (seed + 0x6d2b79f5) | 0
  let t = Math.imul(seed ^ (seed >>> 15), 1 | seed)
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
  return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296
}

const textOf = (index: number, words: number): string => {
  const random = seeded(index)
  return Array.from({ length: words }, () => word(random())).join(" ")
}

const inputOf = (index: number, words: number) => ({ text: textOf(index, words) })

/** An input with half of an example's words and as many other words. */
const halfOf = (index: number, words: number) => ({
  text: `${textOf(index, words / 2)} ${textOf(imported + index, words / 2)}`
})

const lines = (count: number, words: number) =>
  Stream.map(Stream.range(0, count - 1), (index) =>
    JSON.stringify({ input: inputOf(index, words), answer: { category: `c${index % 7}` } })
  )

const program = Effect.gen(function* () {
  const countersign = yield* Countersign
  const datasets = yield* Datasets
  const sql = yield* SqlClient.SqlClient
  const now = yield* (yield* StoreClock).now
  const admin = yield* countersign.client()
  const [row] = yield* sql<{ readonly org_id: string }>`SELECT org_id FROM organizations`
  const org_id = OrgId.make(row?.org_id ?? "")
  const reader = Context.make(Authorized("datasets.read"), {
    org_id,
    actor: OPERATOR,
    scopes: new Set(["datasets.read"] as const),
    groups: [],
    keyMakers: [],
    makers: []
  })

  const filled = Effect.fnUntraced(function* (count: number, words: number) {
    const { id } = yield* admin.tasks.create({
      payload: {
        name: `${count} examples of ${words} words`,
        input_schema: { type: "object" },
        answer_schema: { type: "object" }
      }
    })
    const begin = performance.now()
    const { dataset } = yield* datasets.importLines(org_id, id, lines(count, words), () => Effect.void)
    return { task_id: id, dataset_id: dataset.id, seconds: (performance.now() - begin) / 1000 }
  })

  /** Copies the examples under other input digests. The word index is left empty: its words reach enough examples already. */
  const multiply = Effect.fnUntraced(function* (task_id: TaskId, copies: number) {
    // One copy per statement: a connection that is silent for 12 seconds counts as lost.
    for (let copy = 1; copy <= copies; copy++) {
      yield* sql`
        INSERT INTO dataset_examples (
          org_id, task_id, example_id, first_version, until_version, input, answer, bytes, input_digest,
          source_feedback_id, origin, tokens, ordinal
        )
        SELECT
          e.org_id, e.task_id, 'exm_' || left(substr(example_id, 5), 12) || md5(${copy}::text || example_id)::text COLLATE "C",
          first_version, until_version, input, answer, bytes,
          decode(md5(example_id || ${copy}::text) || md5(${copy}::text || example_id), 'hex'),
          source_feedback_id, origin, tokens, ordinal + ${copy}::int * d.last_ordinal
        FROM dataset_examples AS e
          JOIN datasets AS d ON d.org_id = e.org_id AND d.task_id = e.task_id
        WHERE e.task_id = ${task_id}
          AND e.ordinal <= d.last_ordinal
      `
    }
    yield* sql`
      UPDATE datasets
      SET example_count = example_count * (${copies}::int + 1),
        last_ordinal = last_ordinal * (${copies}::int + 1),
        last_example_id = (SELECT max(example_id) FROM dataset_examples WHERE task_id = ${task_id})
      WHERE task_id = ${task_id}
    `
    yield* sql`ANALYZE dataset_examples`
  })

  const derive = Effect.fnUntraced(function* (
    task_id: TaskId,
    base: DatasetId,
    round: number,
    count: number
  ) {
    const examples = Array.from({ length: corrections }, (_, index) => ({
      input: inputOf((round * 7_919 + index * 104_729) % count, short),
      answer: { category: `corrected in ${round}` },
      source_feedback_id: null,
      origin: "made" as const
    }))
    const made = yield* transaction(
      datasets.derive({ org_id, task_id, base, by: OPERATOR, now }, Stream.fromIterable(examples))
    )
    return made.dataset.id
  })

  const timed = <A, E, R>(effect: Effect.Effect<A, E, R>, into: Array<number>) =>
    Effect.suspend(() => {
      const begin = performance.now()
      return Effect.tap(effect, () => Effect.sync(() => into.push(performance.now() - begin)))
    })

  const few = yield* filled(small, short)
  const many = yield* filled(imported, short)
  yield* transaction(multiply(many.task_id, Math.round(large / imported) - 1))

  const ofFew: Array<number> = []
  const ofMany: Array<number> = []
  let fewBase = few.dataset_id
  let manyBase = many.dataset_id
  let manyBefore = manyBase
  for (let round = 0; round < rounds; round++) {
    fewBase = yield* timed(derive(few.task_id, fewBase, round, small), ofFew)
    manyBefore = manyBase
    manyBase = yield* timed(derive(many.task_id, manyBase, round, imported), ofMany)
  }

  const pages: Record<string, Array<number>> = { "the newest": [], "the first": [] }
  for (const [which, id] of [
    ["the newest", manyBase],
    ["the first", many.dataset_id]
  ] as const) {
    let cursor: ExampleId | undefined
    for (let page = 0; page < rounds; page++) {
      const read = yield* timed(
        Effect.provide(
          datasets.examples(id, { limit: 100, ...(cursor === undefined ? {} : { cursor }) }),
          reader
        ),
        pages[which] ?? []
      )
      cursor = read.next_cursor ?? undefined
    }
  }

  const differences: Array<number> = []
  const changes = yield* DatasetChanges
  for (let round = 0; round < rounds; round++) {
    yield* timed(Effect.provide(changes.between(manyBase, manyBefore), reader), differences)
  }

  const timeLookUps = Effect.fnUntraced(function* (id: DatasetId, words: number) {
    const times: Array<number> = []
    const version = yield* getVersion(sql, org_id, id)
    for (let index = 0; index < lookUps; index++) {
      yield* timed(findNearest(sql, org_id, version, halfOf(index * 31, words), { k: 1 }), times)
    }
    return times
  })
  const nearest = yield* timeLookUps(manyBase, short)
  const nearestLong = yield* timeLookUps((yield* filled(ofLong, long)).dataset_id, long)

  console.log(`\nDatasets: ${large} examples with ${short} words, ${rounds} rounds; ${machine()}\n`)
  console.log(`import: ${Math.round(imported / many.seconds).toLocaleString("en")} examples per second`)
  console.log(line(`version with ${corrections} corrections, of ${small}`, ofFew, "ms"))
  console.log(line(`the same of ${large}`, ofMany, "ms"))
  // The larger dataset has 500 times the examples.
  console.log(atMost("  by that of the smaller one", [(100 * median(ofMany)) / median(ofFew)], 300, "%"))
  console.log(line("100 examples of the newest version", pages["the newest"] ?? [], "ms"))
  console.log(line("100 examples of the first version", pages["the first"] ?? [], "ms"))
  console.log(line("changes between two versions", differences, "ms"))
  console.log(line("nearest example, by words", nearest, "ms"))
  console.log(line(`nearest of ${ofLong} examples with ${long} words`, nearestLong, "ms"))
})

await Effect.runPromise(Effect.provide(program, Countersign.layer()).pipe(Effect.scoped))
process.exit()
