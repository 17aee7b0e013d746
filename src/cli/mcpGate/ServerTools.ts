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

/** The tools that the server lists to its client. */
export interface ServerTools {
  /**
   * Opens the definitions for the capabilities of the client. A server can list other tools to a client that can do more, so each set of
   * capabilities has definitions of its own.
   */
  readonly begin: (capabilities: JsonObject) => Promise<void>
  /** Returns a result that describes the server, for the client. */
  readonly examineServer: (result: JsonObject) => Promise<JsonObject>
  /** Reads a page of tools, and returns the result for the client. */
  readonly examineList: (result: JsonObject) => Promise<JsonObject>
  /**
   * Reads all pages, unless the tool is known from a list that is new enough. `meta`: that of the client's request, which names its version
   * of the protocol. Returns why the list is not known, as a sentence; undefined if it is.
   */
  readonly refresh: (tool: string, meta: JsonObject) => Promise<string | undefined>
  readonly find: (tool: string) => KnownTool | undefined
  /** The list has changed: it is read again before the next call. */
  readonly expire: () => void
}

export const makeServerTools = ({
  link,
  open
}: {
  readonly open: (capabilities: JsonObject) => Promise<Definitions>
  /** The connection, which is opened after this. */
  readonly link: () => ServerLink
}): ServerTools => {
  let listedAt = Number.NEGATIVE_INFINITY
  let opening: Promise<Definitions> | undefined
  let definitions: Definitions | undefined

  const opened = (): Definitions => {
    if (definitions === undefined) throw new Error("the client has sent no request")
    return definitions
  }

  const examineList: ServerTools["examineList"] = async (result) => {
    const { nextCursor, tools } = listOf(result)
    const visible = await opened().examine(tools)
    if (nextCursor === undefined) {
      await opened().listed()
      listedAt = performance.now()
    }
    return shownList(result, visible)
  }

  const readAll = async ({ progressToken: _, ...meta }: JsonObject): Promise<string | undefined> => {
    let cursor: string | undefined
    for (let page = 0; page < MAX_PAGES; page++) {
      const params = {
        ...(cursor === undefined ? {} : { cursor }),
        ...(Object.keys(meta).length === 0 ? {} : { _meta: meta })
      }
      const response = await link().request("tools/list", params)
      if (response.state !== "answered") return response.reason
      if ("error" in response.outcome) return "It answered tools/list with an error."
      const { result } = response.outcome
      if (!isObject(result)) return "It answered tools/list without a result."
      await examineList(result)
      cursor = listOf(result).nextCursor
      if (cursor === undefined) return undefined
    }
    return `Its list has more than ${MAX_PAGES} pages.`
  }

  return {
    begin: async (capabilities) => {
      definitions ??= await (opening ??= open(capabilities))
    },
    examineServer: async (result) => {
      const { instructions } = result
      const serverInfo = serverInfoOf(result)
      const definitions = opened()
      return shownServer(result, {
        instructions: await definitions.examinePart(
          "instructions",
          typeof instructions === "string" ? instructions : null
        ),
        // A server may leave it out.
        serverInfo:
          serverInfo === undefined ? null : await definitions.examinePart("server_info", toJson(serverInfo))
      })
    },
    examineList,
    refresh: async (tool, meta) => {
      const isFresh = performance.now() - listedAt < LIST_MILLIS
      return isFresh && opened().find(tool) !== undefined ? undefined : await readAll(meta)
    },
    find: (tool) => opened().find(tool),
    expire: () => {
      listedAt = Number.NEGATIVE_INFINITY
    }
  }
}
