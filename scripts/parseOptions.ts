/** Options of the scripts that people start with `npm run`. */
import { readFileSync } from "node:fs"
import { parseArgs, type ParseArgsConfig } from "node:util"

/** The usage of a script: its leading comment. */
const usageOf = (script: string): string => {
  const [, comment = ""] = /^\/\*\*\n([\s\S]*?)\n \*\//.exec(readFileSync(script, "utf8")) ?? []
  return comment.replaceAll(/^ \* ?/gm, "")
}

/** Prints what is wrong with the options of a script, and its usage, to the standard error. The exit code is 2. */
export const failUsage = (script: string, problem: string): never => {
  console.error(`${problem}\n\n${usageOf(script)}`)
  process.exit(2)
}

/**
 * Parses the options of a script, whose file name is the first argument. `--help` prints the script's leading comment and
 * ends the process. So does an option that the script does not have, with exit code 2.
 */
export const parseOptions = <const Config extends ParseArgsConfig>(script: string, config: Config) => {
  if (process.argv.slice(2).some((argument) => argument === "--help" || argument === "-h")) {
    console.log(usageOf(script))
    process.exit(0)
  }
  try {
    return parseArgs(config)
  } catch (error) {
    return failUsage(script, error instanceof Error ? error.message : String(error))
  }
}
