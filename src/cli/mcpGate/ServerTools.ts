import { Data, Effect, Semaphore } from "effect"
import { toJson } from "../../client/connect/recordable.ts"
import { isObject, type JsonObject } from "../mcp/jsonRpc.ts"
import { listOf } from "./callResults.ts"
import type { Definitions, KnownTool } from "./Definitions.ts"
import type { ServerLink } from "./ServerLink.ts"
import { serverInfoOf, shownList, shownServer } from "./shownResults.ts"

/** The server's tools are read again before a call if they were read longer ago. */
const LIST_MILLIS = 60_000

/** Most pages of a list of tools. */
const MAX_PAGES = 50

/** How often a list is read that changes meanwhile. */
const MAX_READS = 3

/** A list that is read, from the request for its first page on. */
interface Reading {
  readonly at: number
  /** How often the server's tools had changed until then. */
  readonly changes: number
  /** Whether it begins with the first page. */
  readonly isWhole: boolean
  /** The tools of the pages that were read. */
  readonly names: Set<string>
}

/** The server's tools are not known. `reason`: a sentence. */
class NotListed extends Data.TaggedError("NotListed")<{ readonly reason: string }> {}

export type ServerTools = ReturnType<typeof makeServerTools>

/** The tools that the server lists to its client, and its description of itself. */
export const makeServerTools = (
  link: Pick<ServerLink, "listChanges" | "request">,
  open: (capabilities: JsonObject) => Promise<Definitions>
) => {
  let opening: Promise<Definitions> | undefined
  /** The latest whole reading of each tool. */
  const readings = new Map<string, Reading>()
  /** The reading of a tool is that of the list which was examined last. */
  const examining = Semaphore.makeUnsafe(1)

  const definitions = Effect.promise(
    () => opening ?? Promise.reject(new Error("the client has sent no request"))
  )

  /** Begins to read a list. Called before the request for a page, whose parameters are given. */
  const beginReading = (params?: unknown): Reading => ({
    at: performance.now(),
    changes: link.listChanges(),
    isWhole: !isObject(params) || params["cursor"] === undefined,
    names: new Set()
  })

  /** Examines a page of tools, and returns the result for the client. */
  const examineList = Effect.fnUntraced(function* (result: JsonObject, reading: Reading) {
    const { nextCursor, tools } = listOf(result)
    const known = yield* definitions
    const visible = yield* Effect.promise(() => known.examine(tools))
    for (const tool of tools) {
      const name = isObject(tool) ? tool["name"] : undefined
      if (typeof name !== "string" || known.find(name) === undefined) continue
      readings.delete(name)
      reading.names.add(name)
    }
    if (nextCursor === undefined) {
      yield* Effect.promise(() => known.listed())
      if (reading.isWhole) for (const name of reading.names) readings.set(name, reading)
    }
    return shownList(result, visible)
  }, examining.withPermits(1))

  const readAll = Effect.fnUntraced(function* ({ progressToken: _, ...meta }: JsonObject) {
    let cursor: string | undefined
    const reading = beginReading()
    for (let page = 0; page < MAX_PAGES; page++) {
      const response = yield* link.request("tools/list", {
        ...(cursor === undefined ? {} : { cursor }),
        ...(Object.keys(meta).length === 0 ? {} : { _meta: meta })
      })
      if (response.state !== "answered") return yield* new NotListed({ reason: response.reason })
      if ("error" in response.outcome)
        return yield* new NotListed({ reason: "It answered tools/list with an error." })
      const { result } = response.outcome
      if (!isObject(result))
        return yield* new NotListed({ reason: "It answered tools/list without a result." })
      yield* examineList(result, reading)
      cursor = listOf(result).nextCursor
      if (cursor === undefined) return reading
    }
    return yield* new NotListed({ reason: `Its list has more than ${MAX_PAGES} pages.` })
  })

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
    beginReading,
    examineList,

    /**
     * Returns a tool as the server has listed it since a time, by default within the last minute; undefined if it lists no such tool. Reads
     * all pages if the tool was not read since then, or the server has announced a change since it was. `meta`: that of the client's request,
     * which names its version of the protocol.
     */
    find: Effect.fnUntraced(function* (
      tool: string,
      meta: JsonObject,
      since: number = performance.now() - LIST_MILLIS
    ) {
      const known = yield* definitions
      const current = (): KnownTool | undefined => {
        const reading = readings.get(tool)
        const isFresh = reading !== undefined && reading.at >= since && reading.changes === link.listChanges()
        return isFresh ? known.find(tool) : undefined
      }
      for (let reads = 0; reads < MAX_READS; reads++) {
        const found = current()
        if (found !== undefined) return found
        const { changes, names } = yield* readAll(meta)
        if (changes === link.listChanges()) return names.has(tool) ? known.find(tool) : undefined
      }
      return yield* new NotListed({ reason: "It changes its list of tools while it is read." })
    })
  }
}
