/** Which versions of Claude Code can be governed: an older one executes a call whose hook fails or takes too long. */
import type { Environment } from "../../server/config/Settings.ts"

type Version = readonly [major: number, minor: number, patch: number]

/** The first version that blocks a call whose hook fails. */
const OLDEST: Version = [2, 1, 295]

const parse = (pattern: RegExp, text: string): Version | undefined => {
  const found = pattern.exec(text)
  return found === null ? undefined : [Number(found[1]), Number(found[2]), Number(found[3])]
}

const isOld = (version: Version): boolean => {
  const different = OLDEST.findIndex((part, index) => part !== version[index])
  return different >= 0 && (version[different] ?? 0) < (OLDEST[different] ?? 0)
}

const tooOld = (version: Version): string =>
  `Claude Code ${version.join(".")} executes a call whose hook fails: update it to ${OLDEST.join(".")} or later`

/** The fault of the version in the output of `claude --version`; undefined without a fault or a version. */
export const describeClaudeVersion = (output: string): string | undefined => {
  const version = parse(/(\d+)\.(\d+)\.(\d+)/u, output)
  return version !== undefined && isOld(version) ? tooOld(version) : undefined
}

/**
 * The fault of the Claude Code that runs this hook. It names its version in AI_AGENT, unless the variable was set before
 * (`claude-code_2-1-331_harness`). Undefined if nothing is, or if something else runs the hook.
 */
export const describeRunningClaude = (variables: Environment): string | undefined => {
  if (variables["CLAUDECODE"] !== "1") return undefined
  const name = variables["AI_AGENT"] ?? ""
  const version = parse(/^claude-code_(\d+)-(\d+)-(\d+)/u, name)
  if (version !== undefined) return isOld(version) ? tooOld(version) : undefined
  return `the version of this Claude Code is not known, and it must be ${OLDEST.join(".")} or later: AI_AGENT is ${name === "" ? "not set" : JSON.stringify(name.slice(0, 60))}. Start Claude Code without that variable, or update it`
}
