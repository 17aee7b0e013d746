import type { JsonObject } from "../mcp/jsonRpc.ts"
import { listOf } from "./callResults.ts"
import type { Definitions, KnownTool } from "./Definitions.ts"
import type { ServerLink } from "./ServerLink.ts"

/** The server's tools are read again before a call if they were read longer ago. */
const LIST_MILLIS = 60_000

/** Most pages of a list of tools. */
const MAX_PAGES = 50

/** The tools that the server lists. */
export interface ServerTools {
  /** Reads a page of tools, and returns the definitions for the client. */
  readonly examine: (result: unknown) => Promise<ReadonlyArray<unknown>>
  /**
   * Reads all pages, unless the tool is known from a list that is new enough. `meta`: that of the client's request, which names its version
   * of the protocol. Returns whether the list is known.
   */
  readonly refresh: (tool: string, meta: JsonObject) => Promise<boolean>
  readonly find: (tool: string) => KnownTool | undefined
  /** The list has changed: it is read again before the next call. */
  readonly expire: () => void
}

export const makeServerTools = ({
  definitions,
  link,
  log
}: {
  readonly definitions: Definitions
  /** The connection, which is opened after this. */
  readonly link: () => ServerLink
  readonly log: (line: string) => void
}): ServerTools => {
  let listedAt = Number.NEGATIVE_INFINITY

  const examine: ServerTools["examine"] = async (result) => {
    const { nextCursor, tools } = listOf(result)
    const visible = await definitions.examine(tools)
    if (nextCursor === undefined) {
      await definitions.listed()
      listedAt = performance.now()
    }
    return visible
  }

  const readAll = async ({ progressToken: _, ...meta }: JsonObject): Promise<boolean> => {
    let cursor: string | undefined
    for (let page = 0; page < MAX_PAGES; page++) {
      const params = {
        ...(cursor === undefined ? {} : { cursor }),
        ...(Object.keys(meta).length === 0 ? {} : { _meta: meta })
      }
      const response = await link().request("tools/list", params)
      if (response.state === "lost" || "error" in response.outcome) return false
      await examine(response.outcome.result)
      cursor = listOf(response.outcome.result).nextCursor
      if (cursor === undefined) return true
    }
    log(`the server's list of tools has more than ${MAX_PAGES} pages`)
    return false
  }

  return {
    examine,
    refresh: async (tool, meta) => {
      const isFresh = performance.now() - listedAt < LIST_MILLIS
      return (isFresh && definitions.find(tool) !== undefined) || (await readAll(meta))
    },
    find: definitions.find,
    expire: () => {
      listedAt = Number.NEGATIVE_INFINITY
    }
  }
}
