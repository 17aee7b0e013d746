/**
 * Breaks lines that hold a guarantee, one at a time, and runs the tests that should notice. A mutant that survives
 * shows a guarantee that no test holds.
 *
 *     npm run mutants                     every mutant (an hour on two cores)
 *     npm run mutants -- delivery shards  only those whose area, file or change contains one of the words
 *     npm run mutants -- --shard 2/5      the second fifth of them
 *     npm run mutants -- --workers 1      one at a time, to leave processors to others
 *     npm run mutants -- --check          only that each line of the list is still in the source (part of `npm test`)
 *
 * Each mutant runs in a copy of the checkout, so that the checkout is never broken, even if this process is killed. A
 * later run on the same machine is faster: it first tries the test that noticed a mutant the last time.
 */
import { availableParallelism } from "node:os"
import { checkList, mutants, type Outcome, unexplained } from "./mutants/list.ts"
import { failUsage, parseOptions } from "./parseOptions.ts"

const print = ({ killedBy, millis, mutant }: Outcome): void => {
  const outcome =
    killedBy === undefined ? (mutant.equivalent === undefined ? "SURVIVED  " : "equivalent") : "killed    "
  const reason = killedBy === undefined ? (mutant.equivalent ?? "") : `by test/${killedBy}`
  const change = `${mutant.from.replaceAll(/\s+/g, " ")} → ${mutant.to.replaceAll(/\s+/g, " ") || "(removed)"}`
  console.log(`${outcome} src/${mutant.file}: ${change} ${reason} (${Math.round(millis / 1_000)} s)`)
}

const { positionals, values } = parseOptions(import.meta.filename, {
  allowPositionals: true,
  options: {
    check: { type: "boolean", default: false },
    shard: { type: "string", default: "1/1" },
    // Many tests wait most of their time: for a lease, a deadline, a page.
    workers: { type: "string", default: String(Math.ceil(availableParallelism() * 1.5)) }
  }
})

const stale = checkList()
for (const line of stale) console.error(line)
if (stale.length > 0) process.exitCode = 1
else if (values.check) console.log(`${mutants.length} mutants`)
else {
  const chosen = mutants.filter(
    ({ area, file, from, to }) =>
      positionals.length === 0 ||
      positionals.some((word) =>
        [area, file, from, to].some((text) => text.toLowerCase().includes(word.toLowerCase()))
      )
  )
  if (chosen.length === 0) failUsage(import.meta.filename, `No mutant matches ${positionals.join(" ")}`)
  const [shard = NaN, shards = NaN] = values.shard.split("/").map(Number)
  if (!(shard >= 1 && shard <= shards))
    failUsage(import.meta.filename, `--shard is like 2/5, not ${values.shard}`)
  if (!(Number(values.workers) >= 1))
    failUsage(import.meta.filename, `--workers is a number, not ${values.workers}`)
  const { runMutants } = await import("./mutants/run.ts")
  const some = chosen.filter((_, index) => index % shards === shard - 1)
  const outcomes = await runMutants(some, Number(values.workers), print)
  const survivors = unexplained(outcomes)
  const killed = outcomes.filter(({ killedBy }) => killedBy !== undefined).length
  const equivalent = outcomes.length - killed - survivors.length
  console.log(
    `\n${killed} killed, ${equivalent} equivalent, ${survivors.length} survived of ${outcomes.length}`
  )
  if (survivors.length > 0) process.exitCode = 1
}
