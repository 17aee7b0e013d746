import { Effect, Schema } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import { ExampleId, type OrgId } from "../../../domain/Ids.ts"
import { JsonObject } from "../../../domain/tasks/Dataset.ts"
import { chooseScannedWords } from "../../../domain/tasks/chooseScannedWords.ts"
import { type HoldOut, noHoldOut } from "../../../domain/tasks/HoldOut.ts"
import { PostingList } from "../../../domain/tasks/Postings.ts"
import { type ScannedWord, selectCandidates } from "../../../domain/tasks/selectCandidates.ts"
import { similarityOf, weightedWords } from "../../../domain/tasks/Similarity.ts"
import { tokenize, tokensFromBytes } from "../../../domain/tasks/tokenize.ts"
import { nextTurn } from "../../admission/LoopTurns.ts"
import { int4Array, textArray } from "../../store/pgArrays.ts"
import { rowsOf } from "../../store/rows.ts"
import { inputDigest, isInVersion } from "./exampleRows.ts"
import { isVisible } from "./heldOut.ts"
import { readEarlierPostings, readNewestChunks } from "./postingRows.ts"
import type { VersionRow } from "./versionRows.ts"

/** An example near an input. */
export interface NearExample {
  readonly id: ExampleId
  readonly input: JsonObject
  readonly answer: JsonObject
  /** From 1 (the same input) to 0 (nothing in common): see `Similarity`. Four decimals. */
  readonly score: number
}

/** Which examples to find. */
export interface NearestRequest {
  /** Maximum number of examples. */
  readonly k: number
  /** In a comparison, which examples are left out: by their input, so that no version's example of it is found. Default: none. */
  readonly holdOut?: HoldOut
  /** Maximum total size of inputs and answers. A larger example is left out in favor of the next nearest. */
  readonly maxBytes?: number
}

/**
 * Inputs whose similarity is computed exactly, after a selection by approximate similarity: several for each requested example. If too many
 * of them are no longer in the version, more are read.
 */
const candidateLimits = (k: number): ReadonlyArray<number> => [Math.min(1_024, Math.max(128, 8 * k)), 1_024]

/** The highest score of an example with another input. */
const MAX_SIMILARITY = 0.9999

/** The newest examples that are read if none is near: the newest one within the size is chosen. */
const NEWEST = 10

/** An example that may be chosen. */
const CandidateRow = Schema.Struct({ example_id: ExampleId, bytes: Schema.Int })
type Candidate = typeof CandidateRow.Type & { readonly score: number }

const candidateRows = rowsOf(CandidateRow)
const tokenRows = rowsOf(Schema.Struct({ ...CandidateRow.fields, tokens: Schema.Uint8Array }))
const contentRows = rowsOf(Schema.Struct({ example_id: ExampleId, input: JsonObject, answer: JsonObject }))

/**
 * Finds the examples of a version that are nearest to an input, nearest first: the one with exactly this input, then by similarity, then the
 * newest. If none has anything in common with the input, it is the newest one, with score 0.
 *
 * The result depends on the version and the input only, not on later versions: word frequencies are those among the inputs of this and
 * earlier versions. Work and memory are bounded for a dataset of any size. The nearest example is missed only if it shares none but the
 * input's most frequent words: then its similarity is low, or more than `MAX_SCANNED_POSTINGS` inputs have its words.
 */
export const findNearest = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  version: VersionRow,
  input: JsonObject,
  { holdOut = noHoldOut, k, maxBytes = Number.POSITIVE_INFINITY }: NearestRequest
) {
  const visible = isVisible(sql, version, input, holdOut)
  const chosen: Array<Candidate> = []
  let left = maxBytes
  const choose = (candidates: ReadonlyArray<Candidate>): void => {
    for (const candidate of candidates) {
      const { bytes, example_id } = candidate
      if (chosen.length === k) return
      if (bytes > left) continue
      if (chosen.some((earlier) => earlier.example_id === example_id)) continue
      chosen.push(candidate)
      left -= bytes
    }
  }
  const same =
    holdOut.kind === "leave_one_out" ? undefined : yield* findSameInput(sql, org_id, version, input, visible)
  if (same !== undefined) choose([{ ...same, score: 1 }])
  if (chosen.length < k) choose(yield* findSimilar(sql, org_id, version, tokenize(input), k, visible))
  if (chosen.length === 0) {
    const newest = yield* findNewest(sql, org_id, version, NEWEST, visible)
    choose(newest.filter(({ bytes }) => bytes <= left).slice(0, 1))
  }
  return yield* readChosen(sql, org_id, version, chosen)
})

/** Finds the example with exactly this input. */
const findSameInput = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  version: VersionRow,
  input: JsonObject,
  visible: Statement.Fragment
) =>
  candidateRows.first(sql`
    SELECT example_id, bytes
    FROM dataset_examples
    WHERE org_id = ${org_id}
      AND input_digest = decode(${inputDigest(version.task_id, input)}, 'hex')
      AND ${isInVersion(sql, version.version)}
      AND ${visible}
    ORDER BY example_id DESC
    LIMIT 1
  `)

/** Finds the similar examples, the most similar first; of equally similar ones, the newest first. At least `k`, if there are. */
const findSimilar = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  version: VersionRow,
  tokens: ReadonlyArray<number>,
  k: number,
  visible: Statement.Fragment
) {
  const { last_ordinal, task_id } = version
  const newest = yield* readNewestChunks(sql, org_id, task_id, tokens, last_ordinal)
  if (newest.length === 0) return []
  const lists = newest.map((chunk) => ({ ...chunk, postings: new PostingList(chunk.postings) }))
  const found = new Map(
    lists.map(({ earlier, postings, word }) => [word, earlier + postings.countUpTo(last_ordinal)])
  )
  const words = weightedWords(tokens, found, last_ordinal)
  const chosen = chooseScannedWords(words, found)
  const scanned: Array<ScannedWord> = lists.filter(({ word }) => chosen.has(word))
  const continued = newest.filter(({ earlier, word }) => earlier > 0 && chosen.has(word))
  if (continued.length > 0) {
    for (const { bytes, word } of yield* readEarlierPostings(sql, org_id, task_id, continued)) {
      // Null if all of them were erased.
      if (bytes !== null) scanned.push({ word, postings: new PostingList(bytes) })
    }
  }
  let similar: ReadonlyArray<Candidate> = []
  for (const limit of candidateLimits(k)) {
    yield* nextTurn
    const ordinals = selectCandidates(words, scanned, { last: last_ordinal, limit })
    const rows = yield* readByOrdinal(sql, org_id, version, ordinals, visible)
    similar = rows
      .map(({ bytes, example_id, tokens: own }) => ({
        bytes,
        example_id,
        // Another input can have the same words.
        score: Math.min(similarityOf(words, tokensFromBytes(own)), MAX_SIMILARITY)
      }))
      .toSorted((left, right) => right.score - left.score || (left.example_id < right.example_id ? 1 : -1))
    if (similar.length >= k || ordinals.length < limit) break
  }
  return similar.filter(({ score }) => score > 0)
})

/** Reads the visible examples of a version that have these inputs. */
const readByOrdinal = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  { task_id, version }: VersionRow,
  ordinals: ReadonlyArray<number>,
  visible: Statement.Fragment
) =>
  tokenRows.all(sql`
    SELECT example_id, bytes, tokens
    FROM unnest(${int4Array(ordinals)}::int[]) AS selected (ordinal)
      CROSS JOIN LATERAL (
        SELECT example_id, bytes, tokens, until_version, input_digest
        FROM dataset_examples
        WHERE org_id = ${org_id}
          AND task_id = ${task_id}
          AND dataset_examples.ordinal = selected.ordinal
          AND first_version <= ${version}
        ORDER BY first_version DESC, example_id DESC
        LIMIT 1
      ) AS example
    WHERE (until_version IS NULL OR until_version > ${version})
      AND ${visible}
  `)

/** Finds the newest visible examples of a version. */
const findNewest = (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  version: VersionRow,
  limit: number,
  visible: Statement.Fragment
) =>
  Effect.map(
    candidateRows.all(sql`
      SELECT example_id, bytes
      FROM dataset_examples
      WHERE org_id = ${org_id}
        AND task_id = ${version.task_id}
        AND example_id <= ${version.last_example_id}
        AND ${isInVersion(sql, version.version)}
        AND ${visible}
      ORDER BY example_id DESC
      LIMIT ${limit}::int
    `),
    (rows) => rows.map((row): Candidate => ({ ...row, score: 0 }))
  )

/** Reads inputs and answers of the chosen examples, in their order. */
const readChosen = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  org_id: OrgId,
  version: VersionRow,
  chosen: ReadonlyArray<Candidate>
) {
  if (chosen.length === 0) return []
  const rows = yield* contentRows.all(sql`
    SELECT example_id, input, answer
    FROM dataset_examples
    WHERE org_id = ${org_id}
      AND task_id = ${version.task_id}
      AND example_id = ANY(${textArray(chosen.map(({ example_id }) => example_id))})
  `)
  const contents = new Map(rows.map((row) => [row.example_id, row]))
  return chosen.flatMap(({ example_id, score }): ReadonlyArray<NearExample> => {
    const content = contents.get(example_id)
    // An example may be erased between the statements.
    if (content === undefined) return []
    return [{ id: example_id, input: content.input, answer: content.answer, score: rounded(score) }]
  })
})

const rounded = (score: number): number => Math.round(score * 10_000) / 10_000
