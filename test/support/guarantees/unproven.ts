import type { Guarantee, Proof } from "./guarantees.ts"

/** The tests of a run by file (`test/….test.ts`): their full names, with whether they passed, failed or were skipped. */
export type RunResults = ReadonlyMap<string, ReadonlyArray<TestOutcome>>

export interface TestOutcome {
  readonly name: string
  readonly state: "passed" | "failed" | "skipped" | "pending"
}

/**
 * The proofs that a run lacks, each with the reason. A run of all tests must contain every proof; a run of some files
 * only the proofs of these files.
 */
export const unproven = (
  guarantees: ReadonlyArray<Guarantee>,
  results: RunResults,
  run: { readonly isComplete: boolean; readonly isRoot: boolean }
): ReadonlyArray<string> =>
  guarantees.flatMap(({ promise, proofs }) =>
    proofs.flatMap((proof) => {
      const reason = faultOf(proof, results, run)
      return reason === undefined ? [] : [`"${promise}…": ${proof.file}: "${proof.test}" ${reason}`]
    })
  )

const faultOf = (
  { file, needs, test }: Proof,
  results: RunResults,
  { isComplete, isRoot }: { readonly isComplete: boolean; readonly isRoot: boolean }
): string | undefined => {
  const outcomes = results.get(`${file}.test.ts`)
  if (outcomes === undefined) return isComplete ? "did not run: there is no such file" : undefined
  if (needs === "root" && !isRoot) return undefined
  const pattern = new RegExp(`^${test.split("*").map(escapeRegExp).join(".*")}$`, "s")
  const found = outcomes.filter(({ name }) => pattern.test(name))
  if (found.length === 0) return "is missing or was renamed"
  const other = found.find(({ state }) => state !== "passed")
  return other === undefined ? undefined : `has not passed: ${other.state}`
}

const escapeRegExp = (text: string): string => text.replaceAll(/[\\^$.*+?()[\]{}|]/g, String.raw`\$&`)
