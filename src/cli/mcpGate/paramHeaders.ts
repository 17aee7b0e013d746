import { isObject } from "../mcp/jsonRpc.ts"

/** A name of an HTTP header. */
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/

/** Deepest argument that a header is made of. */
const MAX_DEPTH = 8

/** A header value of the protocol: text beyond printable ASCII is in base64. */
export const headerValue = (text: string): string =>
  /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/.test(text) && !text.startsWith("=?base64?")
    ? text
    : `=?base64?${Buffer.from(text, "utf8").toString("base64")}?=`

/**
 * The headers with arguments of a call that the tool's schema asks for by `x-mcp-header`, so that proxies of the stateless protocol need
 * not read the body.
 */
export const paramHeaders = (schema: unknown, args: unknown, depth = 0): Readonly<Record<string, string>> => {
  const properties = isObject(schema) && isObject(schema["properties"]) ? schema["properties"] : {}
  const headers: Record<string, string> = {}
  if (!isObject(args) || depth >= MAX_DEPTH) return headers
  for (const [name, property] of Object.entries(properties)) {
    if (!isObject(property) || !Object.hasOwn(args, name)) continue
    const value = args[name]
    const header = property["x-mcp-header"]
    const isPlain = typeof value === "string" || typeof value === "boolean" || typeof value === "number"
    if (typeof header === "string" && TOKEN.test(header) && isPlain) {
      headers[`Mcp-Param-${header}`] = headerValue(String(value))
    }
    Object.assign(headers, paramHeaders(property, value, depth + 1))
  }
  return headers
}
