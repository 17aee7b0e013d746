/** Results with definitions as a client gets them: the confirmed definitions, and members that programs read, without free text. */
import { isObject, type JsonObject } from "../mcp/jsonRpc.ts"
import { metaOf, SERVER_INFO_KEY } from "../mcp/protocol.ts"
import { listOf } from "./callResults.ts"

/** Members of the results of `initialize`, `server/discover` and `tools/list` that only programs read. */
const PROGRAM_MEMBERS = [
  "protocolVersion",
  "supportedVersions",
  "capabilities",
  "resultType",
  "ttlMs",
  "cacheScope"
]

/** A version, or the name of a capability or its setting: too short for a sentence, and without spaces. */
const WORD = /^[\w.+/:;=-]{1,100}$/

const isWord = (value: unknown): value is string => typeof value === "string" && WORD.test(value)

const MAX_DEPTH = 8

/** The part of a value that has no free text; undefined if all of it is. */
const withoutText = (value: unknown, depth = 0): unknown => {
  if (typeof value === "string") return isWord(value) ? value : undefined
  if (typeof value !== "object" || value === null) return value
  if (depth >= MAX_DEPTH) return undefined
  if (Array.isArray(value)) {
    return value.map((item) => withoutText(item, depth + 1)).filter((item) => item !== undefined)
  }
  return Object.fromEntries(
    Object.entries(value)
      .filter(([name]) => isWord(name))
      .map(([name, inner]) => [name, withoutText(inner, depth + 1)])
  )
}

const programMembers = (result: JsonObject): JsonObject =>
  Object.fromEntries(
    PROGRAM_MEMBERS.filter((name) => Object.hasOwn(result, name)).map((name) => [
      name,
      withoutText(result[name])
    ])
  )

/** A page of tools for the client. A cursor is opaque: clients send it back unread. */
export const shownList = (result: JsonObject, tools: ReadonlyArray<unknown>): JsonObject => {
  const { nextCursor } = listOf(result)
  return {
    ...programMembers(result),
    ...(nextCursor === undefined ? {} : { nextCursor }),
    tools
  }
}

/** The server's name, title and description, which people and models read, without the version. */
export const serverInfoOf = (result: JsonObject): JsonObject | undefined => {
  const info = result["serverInfo"] ?? metaOf(result)[SERVER_INFO_KEY]
  if (!isObject(info)) return undefined
  const { version, ...described } = info
  return isWord(version) ? described : info
}

/** The result of `initialize` or `server/discover` for the client, with the accepted texts. */
export const shownServer = (
  result: JsonObject,
  { instructions, serverInfo }: { readonly instructions: unknown; readonly serverInfo: unknown }
): JsonObject => {
  const sent = result["serverInfo"] ?? metaOf(result)[SERVER_INFO_KEY]
  const version = isObject(sent) && isWord(sent["version"]) ? { version: sent["version"] } : {}
  const info = { ...(isObject(serverInfo) ? serverInfo : {}), ...version }
  return {
    ...programMembers(result),
    ...(typeof instructions === "string" ? { instructions } : {}),
    ...("serverInfo" in result ? { serverInfo: info } : {}),
    ...(SERVER_INFO_KEY in metaOf(result) ? { _meta: { [SERVER_INFO_KEY]: info } } : {})
  }
}
