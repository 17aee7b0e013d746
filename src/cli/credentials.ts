import { readFileSync } from "node:fs"
import path from "node:path"
import { fileFailed } from "./fileFailure.ts"
import { errnoCode } from "../server/store/errnoCode.ts"
import { type Environment, textOfVariable } from "../server/config/Settings/readVariables.ts"
import { variableNames, variables } from "../server/config/Settings/variables.ts"

/** The variable with the directory of credentials. systemd sets it for units with `LoadCredential=`. */
const DIRECTORY = "CREDENTIALS_DIRECTORY"

/** The text of a credential without the newline that editors add; undefined if there is none. */
const readCredential = (file: string): string | undefined => {
  try {
    return readFileSync(file, "utf8").replace(/\r?\n$/, "")
  } catch (error) {
    if (errnoCode(error) === "ENOENT") return undefined
    throw fileFailed(file, error)
  }
}

/**
 * Adds the secret variables that have a file of their name in the directory of credentials. A variable that is set takes precedence over
 * its file, and files of other names are ignored.
 */
export const withCredentials = (environment: Environment): Environment => {
  const directory = textOfVariable(environment, DIRECTORY)
  if (directory === undefined) return environment
  const found = variableNames.flatMap((name) => {
    if (!variables[name].secret || textOfVariable(environment, name) !== undefined) return []
    const text = readCredential(path.join(directory, name))
    return text === undefined ? [] : [[name, text] as const]
  })
  return { ...environment, ...Object.fromEntries(found) }
}
