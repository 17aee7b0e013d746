/** Parameters and results of `tools/call` as the gate changes them. */
import { Option, Schema } from "effect"
import { isObject, type JsonObject, type RpcOutcome } from "../mcp/jsonRpc.ts"
import { textResult } from "../mcp/protocol.ts"
import type { CallEnd } from "./Journal.ts"

/** The key of the gate's question among the input requests of a call. */
export const QUESTION_KEY = "countersign_approval"

/** The key of the gate's own data in the `_meta` of results. */
export const META_KEY = "dev.countersign/gate"

/** The page of a list of tools. */
export const listOf = (
  result: unknown
): { readonly tools: ReadonlyArray<unknown>; readonly nextCursor: string | undefined } => {
  const { nextCursor, tools } = isObject(result) ? result : {}
  return {
    tools: Array.isArray(tools) ? tools : [],
    nextCursor: typeof nextCursor === "string" ? nextCursor : undefined
  }
}

/** Whether the client's user did not want to see the link to the approval. */
export const isDeclined = (params: unknown): boolean => {
  const responses = isObject(params) ? params["inputResponses"] : undefined
  const response = isObject(responses) ? responses[QUESTION_KEY] : undefined
  return isObject(response) && response["action"] !== "accept"
}

/**
 * The parameters that the server gets: the members of the protocol and no others, since a parser that ignores case could read another one.
 * `serverState`: the state of the server's own question, if the client answers one.
 */
export const callParams = (params: unknown, leg: number, serverState: string | null): JsonObject => {
  if (!isObject(params)) return {}
  const { _meta, inputResponses, name, task } = params
  const args = params["arguments"]
  return {
    name,
    ...(args === undefined ? {} : { arguments: args }),
    ...(_meta === undefined ? {} : { _meta }),
    ...(task === undefined ? {} : { task }),
    ...(leg === 0 || inputResponses === undefined ? {} : { inputResponses }),
    ...(serverState === null ? {} : { requestState: serverState })
  }
}

const decodeJson = Schema.decodeUnknownOption(Schema.Json)

const json = (value: unknown): Schema.Json => Option.getOrElse(decodeJson(value), () => null)

const textOf = (result: JsonObject): string => {
  const content: ReadonlyArray<unknown> = Array.isArray(result["content"]) ? result["content"] : []
  return content
    .map((part) => (isObject(part) && typeof part["text"] === "string" ? part["text"] : ""))
    .filter((text) => text !== "")
    .join("\n")
}

/** The outcome for the service, and the response for a client that repeats the call. */
export const endOf = (outcome: RpcOutcome): CallEnd => {
  if ("error" in outcome) {
    const message = isObject(outcome.error) ? outcome.error["message"] : undefined
    return {
      response: { error: json(outcome.error) },
      failure: typeof message === "string" && message !== "" ? message : "The server answered with an error.",
      isUnknown: false
    }
  }
  const { result } = outcome
  const isFailure = isObject(result) && result["isError"] === true
  return {
    response: { result: json(result) },
    failure: isFailure ? textOf(result) || "The tool failed without a text." : null,
    isUnknown: false
  }
}

/** The end of a call that has no result of the server. `meta`: the gate's own data in the `_meta` of its result. */
export const failedEnd = (text: string, meta: JsonObject): CallEnd => {
  const result = textResult(text, { isError: true, isStateless: false, meta: { [META_KEY]: meta } })
  return { response: { result: json(result) }, failure: text, isUnknown: false }
}

/** The end of a call that the server may or may not have executed. */
export const unknownEnd = (reason: string): CallEnd => ({
  ...failedEnd(
    `It is unknown whether this call was executed: ${reason} It was not sent again. Check its effect first; calling the tool again is a new call.`,
    { cause: "unknown" }
  ),
  isUnknown: true
})

/** A kept response for a request: in the stateless protocol, a result has a type. */
export const responseFor = ({ response }: CallEnd, isStateless: boolean): RpcOutcome => {
  const result: unknown = "result" in response ? response.result : undefined
  return isStateless && isObject(result) ? { result: { resultType: "complete", ...result } } : response
}
