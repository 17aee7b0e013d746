/**
 * Breaks lines that hold a guarantee, one at a time, and runs the tests that should notice. A mutant that survives
 * shows a guarantee that no test holds.
 *
 *     npm run mutants                     every mutant (an hour on two cores)
 *     npm run mutants -- delivery shards  only those whose area, file or change contains one of the words
 *     npm run mutants -- --check          only that each line of the list is still in the source (part of `npm test`)
 *
 * Each mutant runs in a copy of the checkout, so that the checkout is never broken, even if this process is killed.
 */
import { parseArgs } from "node:util"
import { checkList, mutants, unexplained } from "./mutants/list.ts"
import { runMutants } from "./mutants/run.ts"

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { check: { type: "boolean", default: false } }
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
  const outcomes = await runMutants(chosen)
  const survivors = unexplained(outcomes)
  const killed = outcomes.filter(({ killedBy }) => killedBy !== undefined).length
  const equivalent = outcomes.length - killed - survivors.length
  console.log(
    `\n${killed} killed, ${equivalent} equivalent, ${survivors.length} survived of ${outcomes.length}`
  )
  if (survivors.length > 0) process.exitCode = 1
}
