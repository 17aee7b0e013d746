import { Option, Schema } from "effect"
import { createHash } from "node:crypto"
import path from "node:path"
import { isObject } from "../mcp/jsonRpc.ts"
import { digestOf } from "./digest.ts"
import { createDurably, makeDirectory, readIfExists, replaceDurably } from "./durableFiles.ts"

/** A tool as its server defines it. */
export type ToolDefinition = Readonly<Record<string, Schema.Json>> & { readonly name: string }

const isDefinition = (value: unknown): value is ToolDefinition =>
  isObject(value) && typeof value["name"] === "string"

/** A definition that was accepted, in a file of its own. */
const Pin = Schema.Struct({
  digest: Schema.String,
  definition: Schema.Record(Schema.String, Schema.Json)
})
const PinFile = Schema.fromJsonString(Pin)

/** Most tools of a server, and the most characters of one. */
const MAX_TOOLS = 2_000
const MAX_DEFINITION_CHARACTERS = 500_000

/** The defined thing: a tool, the server's instructions for models, or its name and description of itself. */
export type DefinitionPart = "tool_definition" | "instructions" | "server_info"

/** A definition that awaits approval. */
export interface ChangedDefinition {
  readonly part: DefinitionPart
  /** Name of the tool; null for the other parts. */
  readonly tool: string | null
  /** The accepted definition; null for one that was added. */
  readonly old: Schema.JsonObject | null
  readonly new: Schema.JsonObject
  readonly digest: string
}

/** What changed, as the subject of a sentence. */
export const subjectOf = ({ part, tool }: Pick<ChangedDefinition, "part" | "tool">): string => {
  if (part === "tool_definition") return `the definition of ${JSON.stringify(tool)}`
  return part === "instructions" ? "the text of the server's instructions" : "the description of the server"
}

/** A tool that the server has listed. */
export type KnownTool =
  | { readonly state: "accepted"; readonly definition: ToolDefinition }
  /** Its definition changed. `question`: where a person can approve it, as a sentence. */
  | { readonly state: "changed"; readonly question: string | undefined }

export interface DefinitionsOptions {
  readonly directory: string
  /** Whether changes are accepted without asking anybody. */
  readonly acceptsChanges: boolean
  /**
   * Asks a person about a change, and resolves with their decision; `notify` gets the place of the question. `undefined`: the question could not be asked.
   */
  readonly ask: (
    change: ChangedDefinition,
    notify: (question: string) => void
  ) => Promise<"approved" | "rejected" | undefined>
  /** Called when the tools that a client sees have changed. */
  readonly onChange: () => void
  readonly log: (line: string) => void
}

export type Definitions = Awaited<ReturnType<typeof openDefinitions>>

/**
 * Pins the definitions of a server's tools and its description of itself, with all members: the first ones are trusted, and changed ones are
 * used only after a person approved them. Until then their text reaches no model: it could mislead it.
 */
export const openDefinitions = async (options: DefinitionsOptions) => {
  const { acceptsChanges, ask, log, onChange } = options
  const directory = path.join(options.directory, "tools")
  const listedFile = path.join(options.directory, "listed")
  await makeDirectory(directory)
  let isListed = (await readIfExists(listedFile)) !== undefined

  const known = new Map<string, KnownTool>()
  /** Digests of the definitions of changed tools as they were listed last. */
  const unaccepted = new Map<string, string>()
  /** Digests that a person is being asked about, or has rejected. */
  const asked = new Set<string>()

  const fileOf = ({ part, tool }: Pick<ChangedDefinition, "part" | "tool">) =>
    tool === null
      ? path.join(options.directory, `${part}.json`)
      : path.join(directory, `${createHash("sha256").update(tool).digest("hex").slice(0, 32)}.json`)

  /** Pins a first definition. Returns the change if another one is pinned. */
  const pin = async (
    subject: Pick<ChangedDefinition, "part" | "tool">,
    definition: Schema.JsonObject,
    canBeFirst: boolean
  ): Promise<ChangedDefinition | undefined> => {
    const file = fileOf(subject)
    const digest = digestOf(definition)
    const content = JSON.stringify({ digest, definition })
    if (canBeFirst && (await createDurably(file, content))) return undefined
    // Read after the attempt: another gate may have been the first.
    const pinned = Option.getOrUndefined(Schema.decodeUnknownOption(PinFile)(await readIfExists(file)))
    if (pinned?.digest === digest) return undefined
    if (acceptsChanges) {
      await replaceDurably(file, content)
      return undefined
    }
    return { ...subject, old: pinned?.definition ?? null, new: definition, digest }
  }

  const accept = (definition: ToolDefinition) => {
    known.set(definition.name, { state: "accepted", definition })
    unaccepted.delete(definition.name)
    return definition
  }

  /** Asks once for every new definition; again if the service could not be reached. */
  const askOnce = (change: ChangedDefinition, notify: (question: string) => void, onApproved: () => void) => {
    const key = `${change.digest} ${change.part} ${change.tool ?? ""}`
    if (asked.has(key)) return
    asked.add(key)
    const subject = subjectOf(change)
    log(
      change.tool === null
        ? `${subject} changed: clients get the accepted one until this is approved`
        : change.old === null
          ? `the server added the tool ${JSON.stringify(change.tool)}: it is hidden until its definition is approved`
          : `${subject} changed: its calls are denied until it is approved`
    )
    const decide = async () => {
      const answer = await ask(change, notify)
      if (answer === undefined) asked.delete(key)
      if (answer !== "approved") return
      await replaceDurably(fileOf(change), JSON.stringify({ digest: change.digest, definition: change.new }))
      asked.delete(key)
      log(`${subject} changed, and the change was approved`)
      onApproved()
    }
    decide().catch((error: unknown) => {
      asked.delete(key)
      log(`${subject} cannot be asked about: ${String(error)}`)
    })
  }

  const isTooLong = (definition: Schema.JsonObject, subject: string): boolean => {
    if (JSON.stringify(definition).length <= MAX_DEFINITION_CHARACTERS) return false
    log(`${subject} has more than ${MAX_DEFINITION_CHARACTERS} characters: it is hidden`)
    return true
  }

  const examineTool = async (definition: ToolDefinition): Promise<ToolDefinition | undefined> => {
    const { name } = definition
    if (isTooLong(definition, `the definition of ${JSON.stringify(name)}`)) {
      known.delete(name)
      unaccepted.delete(name)
      return undefined
    }
    const change = await pin({ part: "tool_definition", tool: name }, definition, !isListed)
    if (change === undefined) return accept(definition)
    const old = isDefinition(change.old) ? change.old : null
    // The server may list a third definition before a person has decided about this one.
    const isLatest = () => unaccepted.get(name) === change.digest
    if (!isLatest()) known.set(name, { state: "changed", question: undefined })
    unaccepted.set(name, change.digest)
    const notify = (question: string) => {
      if (isLatest()) known.set(name, { state: "changed", question })
    }
    askOnce({ ...change, old }, notify, () => {
      if (isLatest()) accept(definition)
      onChange()
    })
    return old ?? undefined
  }

  return {
    /** A part of the server's description of itself, for the client: if it changed, the accepted one. Null: none. */
    examinePart: async (
      part: Exclude<DefinitionPart, "tool_definition">,
      value: Schema.Json
    ): Promise<Schema.Json> => {
      const definition = { [part]: value }
      const subject = { part, tool: null }
      if (isTooLong(definition, subjectOf(subject))) return null
      const change = await pin(subject, definition, true)
      if (change === undefined) return value
      askOnce(
        change,
        () => undefined,
        () => undefined
      )
      return change.old?.[part] ?? null
    },

    /** The definitions of a page for the client: changed ones with their accepted definition, added ones not at all. */
    examine: async (page: ReadonlyArray<unknown>): Promise<ReadonlyArray<unknown>> => {
      const visible: Array<unknown> = []
      for (const tool of page) {
        if (!isDefinition(tool)) continue
        if (known.size >= MAX_TOOLS && !known.has(tool.name)) {
          log(`the server has more than ${MAX_TOOLS} tools: the others are hidden`)
          break
        }
        const shown = await examineTool(tool)
        if (shown !== undefined) visible.push(shown)
      }
      return visible
    },
    /** The last page was examined: tools that appear from now on are additions. */
    listed: async (): Promise<void> => {
      if (isListed) return
      isListed = true
      await createDurably(listedFile, "")
    },
    /** Undefined: the server has not listed it. */
    find: (tool: string): KnownTool | undefined => known.get(tool)
  }
}
