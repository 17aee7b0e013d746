/**
 * The search for the nearest examples: how often it finds the right one, whether it finds what a search through all examples finds, and how
 * long a look-up takes, for 1,000, 10,000 and 100,000 examples (`SIZES=1000,10000`).
 *
 * - `verses`: paraphrases. The examples are the verses of public-domain translations of the Bible, and each input is a verse of another
 *   translation (in Basic English). Python packages ship them; they are downloaded at the first run.
 * - `domain`: short texts of one domain, whose words are all frequent. Each input is a variant of an example, with other words around.
 * - `alternatives`: PostgreSQL's full-text search and trigrams, over the same verses.
 *
 * For each size, the prompt of a run with a model is built too: the instructions, the five nearest examples, the request. Its limit is
 * processor time of this process, which other programs of the machine change little.
 *
 * The last lines are the plans of the search's statements in the largest dataset.
 */
import { Effect, Result, Schema, Stream } from "effect"
import { SqlClient, Statement } from "effect/sql"
import { execFileSync } from "node:child_process"
import { existsSync, mkdirSync, readdirSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { type DatasetId, OrgId } from "../../src/domain/Ids.ts"
import { similarityOf, weightedWords } from "../../src/domain/tasks/Similarity.ts"
import { renderInstructions } from "../../src/domain/tasks/InstructionTemplate.ts"
import { withProviderDefaults } from "../../src/domain/tasks/Provider.ts"
import { isSubWord, tokenize } from "../../src/domain/tasks/tokenize.ts"
import { Datasets } from "../../src/server/tasks/Datasets.ts"
import { findNearest } from "../../src/server/tasks/Datasets/findNearest.ts"
import { getVersion } from "../../src/server/tasks/Datasets/versionRows.ts"
import { chatRequest } from "../../src/server/tasks/Providers/chatRequest.ts"
import { findPromptExamples } from "../../src/server/tasks/Providers/promptExamples.ts"
import { Countersign } from "../../src/testing/index.ts"
import { atLeast, line, machine, quantile } from "./measure.ts"

const sizes = (process.env["SIZES"] ?? "1000,10000,100000").split(",").map(Number)
const QUERIES = Number(process.env["QUERIES"] ?? 300)

/** A text, and which texts mean the same. */
interface Text {
  readonly meaning: string
  readonly text: string
}

/** A seeded generator of numbers from 0 to 1 (Mulberry32), so that every run uses the same texts. */
const seeded = (seed: number) => () => {
  seed = (seed + 0x6d2b79f5) | 0
  let t = Math.imul(seed ^ (seed >>> 15), 1 | seed)
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
  return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296
}

const shuffled = <A>(values: ReadonlyArray<A>): ReadonlyArray<A> => {
  const random = seeded(7)
  return values
    .map((value) => [random(), value] as const)
    .toSorted(([left], [right]) => left - right)
    .map(([, value]) => value)
}

const translations = ["bbe", "web", "ylt", "dar", "leeser"]

const decodeVerses = Schema.decodeUnknownSync(
  Schema.fromJsonString(Schema.Array(Schema.Record(Schema.String, Schema.String)))
)

/** Verses by number: of the translation of the inputs, then of those of the examples. */
const readTranslations = (): ReadonlyArray<Readonly<Record<string, string>>> => {
  const folder = fileURLToPath(new URL("../../node_modules/.cache/verses", import.meta.url))
  mkdirSync(folder, { recursive: true })
  const wheelOf = (name: string) =>
    readdirSync(folder).find((file) => file.startsWith(`pythonbible_${name}-`))
  const missing = translations.filter((name) => wheelOf(name) === undefined)
  if (missing.length > 0) {
    const packages = missing.map((name) => `pythonbible-${name}==0.0.2`)
    execFileSync("python3", ["-m", "pip", "download", "-q", "--no-deps", "-d", folder, ...packages])
  }
  const script = fileURLToPath(new URL("retrieval/verses.py", import.meta.url))
  const wheels = translations.map((name) => `${folder}/${wheelOf(name)}`).filter(existsSync)
  return decodeVerses(execFileSync("python3", [script, ...wheels], { encoding: "utf8", maxBuffer: 2 ** 28 }))
}

interface Corpus {
  readonly examples: ReadonlyArray<Text>
  readonly inputs: ReadonlyArray<Text>
}

const verses = (): ((size: number) => Corpus) => {
  const [inputs = {}, ...others] = readTranslations()
  const numbers = shuffled(Object.keys(others[0] ?? {}).filter((number) => inputs[number] !== undefined))
  const all = others.flatMap((verse) =>
    numbers.flatMap((meaning) => {
      const text = verse[meaning]
      return text === undefined || text === "" ? [] : { meaning, text }
    })
  )
  return (size) => ({
    examples: all.slice(0, size),
    inputs: numbers.slice(0, QUERIES).map((meaning) => ({ meaning, text: inputs[meaning] ?? "" }))
  })
}

/** 300 words with frequencies as in a natural language (Zipf's law): with 100,000 texts, the rarest is in hundreds of them. */
const domain = (size: number): Corpus => {
  const random = seeded(11)
  const word = () => `word${Math.floor(300 ** random())}`
  const texts = new Set<string>()
  while (texts.size < size) {
    texts.add([...new Set(Array.from({ length: 6 + Math.floor(random() * 5) }, word))].join(" "))
  }
  const examples = [...texts].map((text) => ({ meaning: text, text }))
  const inputs = shuffled(examples)
    .slice(0, QUERIES)
    .map(({ meaning, text }) => {
      const words = text.split(" ")
      // Without one of the words, with a frequent and an unknown one, in another order and case.
      words.splice(Math.floor(random() * words.length), 1)
      return { meaning, text: [`Please, ${word().toUpperCase()}`, ...words.toReversed()].join(" ") }
    })
  return { examples, inputs }
}

type Ranker = (input: string) => ReadonlyArray<{ readonly index: number; readonly score: number }>

const wordsOf = (tokens: ReadonlyArray<number>) => tokens.filter((token) => !isSubWord(token))

/** Searches through all examples: the five best by a score of the shared words. */
const exactSearch = (examples: ReadonlyArray<Text>) => {
  const tokens = examples.map(({ text }) => tokenize({ text }))
  const words = tokens.map(wordsOf)
  const lists = new Map<number, Array<number>>()
  for (const [index, list] of tokens.entries()) {
    for (const word of list) {
      const list = lists.get(word)
      if (list === undefined) lists.set(word, [index])
      else list.push(index)
    }
  }
  const mean = words.reduce((sum, own) => sum + own.length, 0) / words.length
  /** Ranks by the tokens of the texts: words and sub-words, or words alone. */
  const rank =
    (
      of: ReadonlyArray<ReadonlyArray<number>>,
      scorer: (words: ReadonlyArray<number>) => (example: ReadonlyArray<number>) => number
    ): Ranker =>
    (input) => {
      const all = tokenize({ text: input })
      const own = of === words ? wordsOf(all) : all
      const score = scorer(own)
      const isScored = new Uint8Array(examples.length)
      let best: ReadonlyArray<{ readonly index: number; readonly score: number }> = []
      let lowest = 0
      for (const word of own) {
        for (const index of lists.get(word) ?? []) {
          if (isScored[index] === 1) continue
          isScored[index] = 1
          const ranked = { index, score: score(of[index] ?? []) }
          if (ranked.score < lowest) continue
          best = [...best, ranked]
            .toSorted((left, right) => right.score - left.score || right.index - left.index)
            .slice(0, 5)
          if (best.length === 5) lowest = best.at(-1)?.score ?? 0
        }
      }
      return best
    }
  const found = (words: ReadonlyArray<number>) =>
    new Map(words.map((word) => [word, lists.get(word)?.length ?? 0]))
  return {
    similarity: rank(tokens, (own) => {
      const weighted = weightedWords(own, found(own), examples.length)
      return (example) => similarityOf(weighted, example)
    }),
    words: rank(words, (own) => {
      const weighted = weightedWords(own, found(own), examples.length)
      return (example) => similarityOf(weighted, example)
    }),
    jaccard: rank(words, (words) => {
      const own = new Set(words)
      return (example) => {
        const shared = example.filter((word) => own.has(word)).length
        return shared / (own.size + example.length - shared)
      }
    }),
    bm25: rank(words, (words) => {
      const counts = found(words)
      return (example) => {
        const length = 0.25 + (0.75 * example.length) / mean
        return example.reduce((sum, word) => {
          const count = counts.get(word)
          if (count === undefined) return sum
          const weight = Math.log(1 + (examples.length - count + 0.5) / (count + 0.5))
          return sum + (weight * 2.2) / (1 + 1.2 * length)
        }, 0)
      }
    })
  }
}

/** How often one of the first `within` has the input's meaning. */
const recallAt = (within: number, corpus: Corpus, find: (input: string) => ReadonlyArray<string>): number => {
  const found = corpus.inputs.filter(({ meaning, text }) => find(text).slice(0, within).includes(meaning))
  return found.length / corpus.inputs.length
}

/** How often the first, or one of the first five, has the input's meaning. */
const recall = (corpus: Corpus, find: (input: string) => ReadonlyArray<string>) =>
  `${recallAt(1, corpus, find).toFixed(3)}   ${recallAt(5, corpus, find).toFixed(3)}`

/** A model of a task with the default settings. */
const provider = withProviderDefaults({ kind: "openai", base_url: "http://127.0.0.1:9/v1", model: "a-model" })
const schema = { type: "object", required: ["meaning"], properties: { meaning: { type: "string" } } }

const millis = (times: ReadonlyArray<number>) =>
  `${quantile(times, 0.5).toFixed(1)} ms (99 %: ${quantile(times, 0.99).toFixed(1)})`

const program = (parts: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const countersign = yield* Countersign
    const datasets = yield* Datasets
    const sql = yield* SqlClient.SqlClient
    const admin = yield* countersign.client()
    const [row] = yield* sql<{ readonly org_id: string }>`SELECT org_id FROM organizations`
    const org_id = OrgId.make(row?.org_id ?? "")

    const timed = <A, E, R>(effect: Effect.Effect<A, E, R>, into: Array<number>) =>
      Effect.suspend(() => {
        const begin = performance.now()
        return Effect.tap(effect, () => Effect.sync(() => into.push(performance.now() - begin)))
      })

    const load = Effect.fnUntraced(function* (name: string, examples: ReadonlyArray<Text>) {
      const { id } = yield* admin.tasks.create({
        payload: { name, input_schema: { type: "object" }, answer_schema: { type: "object" } }
      })
      const lines = examples.map(({ meaning, text }) =>
        JSON.stringify({ input: { text }, answer: { meaning } })
      )
      const begin = performance.now()
      const { dataset } = yield* datasets.importLines(
        org_id,
        id,
        Stream.fromIterable(lines),
        () => Effect.void
      )
      const perSecond = Math.round((1000 * examples.length) / (performance.now() - begin))
      yield* sql`ANALYZE dataset_examples, dataset_postings`
      return { dataset_id: dataset.id, perSecond }
    })

    /** Builds the request of a run to a model, as a provider does. */
    const buildPrompt = Effect.fnUntraced(function* (dataset_id: DatasetId, text: string) {
      if (provider.kind !== "openai") return yield* Effect.die("not a provider with OpenAI's API")
      const input = { text }
      const examples = yield* findPromptExamples(sql, { org_id, dataset_id, input }, provider.few_shot)
      const instructions = Result.getOrThrow(renderInstructions("Name the meaning of {{input.text}}.", input))
      return chatRequest(provider, { instructions, examples, input, schema }, undefined)
    })

    const measure = Effect.fnUntraced(function* (name: string, corpus: Corpus) {
      const { dataset_id, perSecond } = yield* load(name, corpus.examples)
      const version = yield* getVersion(sql, org_id, dataset_id)
      const exact = exactSearch(corpus.examples)
      const one: Array<number> = []
      const five: Array<number> = []
      const cpu = process.cpuUsage()
      const found = new Map<string, ReadonlyArray<string>>()
      let asExact = 0
      for (const { text } of corpus.inputs) {
        yield* timed(findNearest(sql, org_id, version, { text }, { k: 1 }), one)
      }
      const { system, user } = process.cpuUsage(cpu)
      for (const { text } of corpus.inputs) {
        const nearest = yield* timed(findNearest(sql, org_id, version, { text }, { k: 5 }), five)
        found.set(
          text,
          nearest.map(({ answer: { meaning } }) => (typeof meaning === "string" ? meaning : ""))
        )
        const best = exact.similarity(text)[0]?.score ?? 0
        if (Math.abs((nearest[0]?.score ?? 0) - best) < 1e-3) asExact++
      }
      const prompts: Array<number> = []
      for (const { text } of corpus.inputs) {
        const before = process.cpuUsage()
        yield* buildPrompt(dataset_id, text)
        const { system, user } = process.cpuUsage(before)
        prompts.push((system + user) / 1_000)
      }
      const meanings = (ranker: Ranker) => (text: string) =>
        ranker(text).map(({ index }) => corpus.examples[index]?.meaning ?? "")
      console.log(`\n${corpus.examples.length.toLocaleString("en")} ${name}             recall at 1, at 5`)
      console.log(`  findNearest                     ${recall(corpus, (text) => found.get(text) ?? [])}`)
      console.log(`  all examples, same score        ${recall(corpus, meanings(exact.similarity))}`)
      console.log(`  all examples, words alone       ${recall(corpus, meanings(exact.words))}`)
      console.log(`  all examples, Jaccard index     ${recall(corpus, meanings(exact.jaccard))}`)
      console.log(`  all examples, BM25              ${recall(corpus, meanings(exact.bm25))}`)
      console.log(
        `  the best score of all was found for ${((100 * asExact) / corpus.inputs.length).toFixed(1)} %`
      )
      const micros = Math.round((system + user) / corpus.inputs.length)
      console.log(`  look-up: ${millis(one)}, of five: ${millis(five)}; processor time of Node: ${micros} µs`)
      console.log(line("  prompt of five examples, processor time", prompts, "ms"))
      const ours = recallAt(1, corpus, (text) => found.get(text) ?? [])
      const exactly = recallAt(1, corpus, meanings(exact.similarity))
      console.log(atLeast("  recall at 1 by that of all examples", [(100 * ours) / exactly], 99, "%"))
      console.log(`  import: ${perSecond.toLocaleString("en")} examples per second`)
      return dataset_id
    })

    /** The plans of the statements of one look-up, after so many that PostgreSQL may use generic plans. */
    const plans = Effect.fnUntraced(function* (dataset_id: DatasetId, text: string) {
      const version = yield* getVersion(sql, org_id, dataset_id)
      const seen: Array<readonly [string, ReadonlyArray<unknown>]> = []
      yield* findNearest(sql, org_id, version, { text }, { k: 5 }).pipe(
        Effect.provideService(Statement.CurrentTransformer, (statement) =>
          Effect.sync(() => {
            seen.push(statement.compile())
            return statement
          })
        )
      )
      for (const [text, parameters] of seen) {
        const lines = yield* sql.unsafe<{ readonly "QUERY PLAN": string }>(
          `EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, BUFFERS OFF) ${text}`,
          parameters
        )
        console.log(`\n${lines.map((line) => line["QUERY PLAN"]).join("\n")}`)
      }
    })

    /** Full-text search and trigrams of PostgreSQL, each with the index that it needs. */
    const alternatives = Effect.fnUntraced(function* ({ examples, inputs }: Corpus) {
      yield* sql`CREATE EXTENSION IF NOT EXISTS pg_trgm`
      yield* sql`CREATE TABLE alternative (meaning text, words text, terms tsvector)`
      for (let start = 0; start < examples.length; start += 5_000) {
        const rows = JSON.stringify(examples.slice(start, start + 5_000))
        yield* sql`
          INSERT INTO alternative
          SELECT meaning, text, to_tsvector('simple', text)
          FROM json_to_recordset(${rows}::json) AS row (meaning text, text text)
        `
      }
      yield* sql`CREATE INDEX ON alternative USING gin (terms)`
      yield* sql`CREATE INDEX ON alternative USING gist (words gist_trgm_ops)`
      yield* sql`ANALYZE alternative`
      const few = inputs.slice(0, 50)
      const searches = {
        "full-text search, any word, ts_rank": (text: string) => sql<{ readonly meaning: string }>`
          SELECT meaning
          FROM alternative,
            to_tsquery('simple', array_to_string(tsvector_to_array(to_tsvector('simple', ${text})), ' | ')) AS query
          WHERE terms @@ query
          ORDER BY ts_rank(terms, query, 1) DESC
          LIMIT 5
        `,
        "trigrams, nearest by distance": (text: string) => sql<{ readonly meaning: string }>`
          SELECT meaning FROM alternative ORDER BY words <-> ${text} LIMIT 5
        `
      }
      console.log(`\nAlternatives, ${examples.length.toLocaleString("en")} verses, ${few.length} look-ups`)
      for (const [name, search] of Object.entries(searches)) {
        const times: Array<number> = []
        const found = new Map<string, ReadonlyArray<string>>()
        for (const { text } of few) {
          const rows = yield* timed(search(text), times)
          found.set(
            text,
            rows.map(({ meaning }) => meaning)
          )
        }
        const figures = recall({ examples, inputs: few }, (text) => found.get(text) ?? [])
        console.log(`  ${name.padEnd(36)} ${figures}   ${millis(times)}`)
      }
      yield* sql`DROP TABLE alternative`
    })

    const chosen = (part: string) => parts.length === 0 || parts.includes(part)
    console.log(`\nNearest examples, ${QUERIES} inputs each; ${machine()}`)
    const verse = verses()
    for (const size of sizes) if (chosen("verses")) yield* measure("verses", verse(size))
    let largest: DatasetId | undefined
    for (const size of sizes)
      if (chosen("domain")) largest = yield* measure("short texts of one domain", domain(size))
    if (chosen("alternatives")) yield* alternatives(verse(Math.max(...sizes)))
    if (largest !== undefined) yield* plans(largest, domain(Math.max(...sizes)).inputs[0]?.text ?? "")
  })

export const run = async (parts: ReadonlyArray<string>): Promise<void> => {
  await Effect.runPromise(Effect.provide(program(parts), Countersign.layer()).pipe(Effect.scoped))
  process.exit()
}
