/** The parts of the Model Context Protocol that the commands read: of both the protocol with `initialize` and the stateless one of 2026-07-28. */
import { isObject, type JsonObject, type RpcId } from "./jsonRpc.ts"

/** The first version of the stateless protocol. */
export const STATELESS_VERSION = "2026-07-28"

const VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
/** The key of the server's name and version in the `_meta` of results of the stateless protocol. */
export const SERVER_INFO_KEY = "io.modelcontextprotocol/serverInfo"
const CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"

/** The `_meta` of a request's parameters, or of a result. */
export const metaOf = (params: unknown): JsonObject => {
  const meta = isObject(params) ? params["_meta"] : undefined
  return isObject(meta) ? meta : {}
}

/** Whether a request belongs to the stateless protocol, in which every request names its version. */
export const isStateless = (params: unknown): boolean => typeof metaOf(params)[VERSION_KEY] === "string"

/** The version that a stateless request names. */
export const requestedVersion = (params: unknown): string | undefined => {
  const version = metaOf(params)[VERSION_KEY]
  return typeof version === "string" ? version : undefined
}

/** The capabilities of the client that a request names: `initialize`, or any of the stateless protocol. */
export const capabilitiesOf = (params: unknown): JsonObject => {
  const named = metaOf(params)[CAPABILITIES_KEY] ?? (isObject(params) ? params["capabilities"] : undefined)
  return isObject(named) ? named : {}
}

/** Whether the client of a stateless request can show a link to its user. */
export const canOpenUrl = (params: unknown): boolean => {
  const { elicitation } = isStateless(params) ? capabilitiesOf(params) : {}
  return isObject(elicitation) && isObject(elicitation["url"])
}

/** The token with which a request asks for progress notifications. */
export const progressTokenOf = (params: unknown): RpcId | undefined => {
  const token = metaOf(params)["progressToken"]
  return typeof token === "string" || typeof token === "number" ? token : undefined
}

/** A result that is a text for the model. The stateless protocol requires its type. */
export const textResult = (
  text: string,
  options: { readonly isError: boolean; readonly isStateless: boolean; readonly meta?: JsonObject }
): JsonObject => ({
  ...(options.isStateless ? { resultType: "complete" } : {}),
  content: [{ type: "text", text }],
  ...(options.isError ? { isError: true } : {}),
  ...(options.meta === undefined ? {} : { _meta: options.meta })
})
