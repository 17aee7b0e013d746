import { Effect } from "effect"
import { toJson } from "../../adapters/toolGate/recordable.ts"
import { isObject, type JsonObject } from "../mcp/jsonRpc.ts"
import { listOf } from "./callResults.ts"
import type { Definitions, KnownTool } from "./Definitions.ts"
import type { ServerLink } from "./ServerLink.ts"
import { serverInfoOf, shownList, shownServer } from "./shownResults.ts"

/** The server's tools are read again before a call if they were read longer ago. */
const LIST_MILLIS = 60_000

/** Most pages of a list of tools. */
const MAX_PAGES = 50

export type ServerTools = ReturnType<typeof makeServerTools>

/** The tools that the server lists to its client, and its description of itself. */
export const makeServerTools = (
  link: Pick<ServerLink, "listChanges" | "request">,
  open: (capabilities: JsonObject) => Promise<Definitions>
) => {
  let opening: Promise<Definitions> | undefined
  let listed: { readonly at: number; readonly changes: number } | undefined

  const definitions = Effect.promise(
    () => opening ?? Promise.reject(new Error("the client has sent no request"))
  )

  /** Reads a page of tools, and returns the result for the client. */
  const examineList = Effect.fnUntraced(function* (result: JsonObject) {
    const { nextCursor, tools } = listOf(result)
    const known = yield* definitions
    const visible = yield* Effect.promise(() => known.examine(tools))
    if (nextCursor === undefined) {
      yield* Effect.promise(() => known.listed())
      listed = { at: performance.now(), changes: link.listChanges() }
    }
    return shownList(result, visible)
  })

  const readAll = Effect.fnUntraced(function* ({ progressToken: _, ...meta }: JsonObject) {
    let cursor: string | undefined
    for (let page = 0; page < MAX_PAGES; page++) {
      const response = yield* link.request("tools/list", {
        ...(cursor === undefined ? {} : { cursor }),
        ...(Object.keys(meta).length === 0 ? {} : { _meta: meta })
      })
      if (response.state !== "answered") return response.reason
      if ("error" in response.outcome) return "It answered tools/list with an error."
      const { result } = response.outcome
      if (!isObject(result)) return "It answered tools/list without a result."
      yield* examineList(result)
      cursor = listOf(result).nextCursor
      if (cursor === undefined) return undefined
    }
    return `Its list has more than ${MAX_PAGES} pages.`
  })

  const find = (tool: string): Effect.Effect<KnownTool | undefined> =>
    Effect.map(definitions, (known) => known.find(tool))

  return {
    /**
     * Opens the definitions for the capabilities of the client. A server can list other tools to a client that can do more, so each set of
     * capabilities has definitions of its own.
     */
    begin: (capabilities: JsonObject): Effect.Effect<void> =>
      Effect.promise(async () => void (await (opening ??= open(capabilities)))),

    /** Returns a result that describes the server, for the client. */
    examineServer: Effect.fnUntraced(function* (result: JsonObject) {
      const { instructions } = result
      const text = typeof instructions === "string" ? instructions : null
      const info = serverInfoOf(result)
      const known = yield* definitions
      return yield* Effect.promise(async () =>
        shownServer(result, {
          instructions: await known.examinePart("instructions", text),
          // A server may leave it out.
          serverInfo: info === undefined ? null : await known.examinePart("server_info", toJson(info))
        })
      )
    }),
    examineList,

    /**
     * Reads all pages, unless the tool is known from a list that is new enough. `meta`: that of the client's request, which names its version
     * of the protocol. Returns why the list is not known, as a sentence; undefined if it is.
     */
    refresh: Effect.fnUntraced(function* (tool: string, meta: JsonObject) {
      const isFresh = listed?.changes === link.listChanges() && performance.now() - listed.at < LIST_MILLIS
      return isFresh && (yield* find(tool)) !== undefined ? undefined : yield* readAll(meta)
    }),
    /** Undefined: the server lists no such tool. */
    find
  }
}
