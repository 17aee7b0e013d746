import { Option, Schema } from "effect"
import { createHash } from "node:crypto"
import path from "node:path"
import { isObject, type JsonObject } from "../mcp/jsonRpc.ts"
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

/** A definition that awaits approval. */
export interface ChangedDefinition {
  /** Null: the instructions of the server. */
  readonly tool: string | null
  /** The accepted definition; null for a tool that was added. */
  readonly old: Schema.JsonObject | null
  readonly new: Schema.JsonObject
  readonly digest: string
}

/** What changed, as the subject of a sentence. */
export const subjectOf = (tool: string | null): string =>
  tool === null ? "the server's instructions" : `the definition of ${JSON.stringify(tool)}`

/** A tool that the server has listed. */
export type KnownTool =
  | { readonly state: "accepted"; readonly definition: ToolDefinition }
  /** Its definition changed. `question`: where a person can approve it, as a sentence. */
  | { readonly state: "changed"; readonly question: string | undefined }

export interface Definitions {
  /** The instructions for the client, which it gives to its model: if they changed, the accepted ones. Undefined: none. */
  readonly examineInstructions: (instructions: string | undefined) => Promise<string | undefined>
  /** The definitions of a page for the client: changed ones with their accepted definition, added ones not at all. */
  readonly examine: (page: ReadonlyArray<unknown>) => Promise<ReadonlyArray<unknown>>
  /** The last page was examined: tools that appear from now on are additions. */
  readonly listed: () => Promise<void>
  /** Undefined: the server has not listed it. */
  readonly find: (tool: string) => KnownTool | undefined
}

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

const ignore = (): void => undefined

/** The pinned part. Neither models nor rules see `_meta` and icons, and servers change them at every start. */
const withoutMeta = ({ _meta, icons, ...definition }: ToolDefinition): JsonObject & Schema.JsonObject =>
  definition

/**
 * Pins the definitions of a server's tools, and its instructions: the first ones are trusted, and changed ones are used only after a person
 * approved them. Until then their text reaches no model: it could mislead it.
 */
export const openDefinitions = async (options: DefinitionsOptions): Promise<Definitions> => {
  const { acceptsChanges, ask, log, onChange } = options
  const directory = path.join(options.directory, "tools")
  const listedFile = path.join(options.directory, "listed")
  await makeDirectory(directory)
  let isListed = (await readIfExists(listedFile)) !== undefined

  const known = new Map<string, KnownTool>()
  /** Digests that a person is being asked about, or has rejected. */
  const asked = new Set<string>()

  const fileOf = (tool: string | null) =>
    tool === null
      ? path.join(options.directory, "instructions.json")
      : path.join(directory, `${createHash("sha256").update(tool).digest("hex").slice(0, 32)}.json`)

  const readPin = async (tool: string | null) =>
    Option.getOrUndefined(Schema.decodeUnknownOption(PinFile)(await readIfExists(fileOf(tool))))

  const accept = (definition: ToolDefinition) => {
    known.set(definition.name, { state: "accepted", definition })
    return definition
  }

  /** Asks once for every new definition; again if the service could not be reached. */
  const askOnce = (change: ChangedDefinition, notify: (question: string) => void, onApproved: () => void) => {
    const key = `${change.digest} ${change.tool ?? ""}`
    if (asked.has(key)) return
    asked.add(key)
    const subject = subjectOf(change.tool)
    log(
      change.tool === null
        ? `${subject} changed: its client gets the accepted ones until these are approved`
        : change.old === null
          ? `the server added the tool ${JSON.stringify(change.tool)}: it is hidden until its definition is approved`
          : `${subject} changed: its calls are denied until it is approved`
    )
    const decide = async () => {
      const answer = await ask(change, notify)
      if (answer === undefined) asked.delete(key)
      if (answer !== "approved") return
      await replaceDurably(
        fileOf(change.tool),
        JSON.stringify({ digest: change.digest, definition: change.new })
      )
      asked.delete(key)
      log(`${subject} changed, and the change was approved`)
      onApproved()
    }
    decide().catch((error: unknown) => {
      asked.delete(key)
      log(`${subject} cannot be asked about: ${String(error)}`)
    })
  }

  const askAboutTool = (
    change: ChangedDefinition & { readonly tool: string },
    definition: ToolDefinition
  ) => {
    known.set(change.tool, { state: "changed", question: undefined })
    const notify = (question: string) => {
      if (known.get(change.tool)?.state === "changed") known.set(change.tool, { state: "changed", question })
    }
    askOnce(change, notify, () => {
      accept(definition)
      onChange()
    })
  }

  const examineTool = async (definition: ToolDefinition): Promise<ToolDefinition | undefined> => {
    const { name } = definition
    const text = JSON.stringify(withoutMeta(definition))
    if (text.length > MAX_DEFINITION_CHARACTERS) {
      log(
        `the definition of ${JSON.stringify(name)} has more than ${MAX_DEFINITION_CHARACTERS} characters: it is hidden`
      )
      return undefined
    }
    const digest = digestOf(withoutMeta(definition))
    const content = JSON.stringify({ digest, definition })
    const isFirst = !isListed && (await createDurably(fileOf(name), content))
    // Read after the attempt: another gate may have been the first.
    const pin = await readPin(name)
    if (isFirst || pin?.digest === digest) return accept(definition)
    if (acceptsChanges) {
      await replaceDurably(fileOf(name), content)
      return accept(definition)
    }
    const old = pin !== undefined && isDefinition(pin.definition) ? pin.definition : null
    askAboutTool({ tool: name, old, new: definition, digest }, definition)
    return old ?? undefined
  }

  const examineInstructions: Definitions["examineInstructions"] = async (instructions) => {
    const definition = { instructions: instructions ?? null }
    const digest = digestOf(definition)
    const content = JSON.stringify({ digest, definition })
    if ((instructions ?? "").length > MAX_DEFINITION_CHARACTERS) {
      log(`the server's instructions have more than ${MAX_DEFINITION_CHARACTERS} characters: they are hidden`)
      return undefined
    }
    if (await createDurably(fileOf(null), content)) return instructions
    const pin = await readPin(null)
    if (pin?.digest === digest) return instructions
    if (acceptsChanges) {
      await replaceDurably(fileOf(null), content)
      return instructions
    }
    const old = pin?.definition["instructions"]
    askOnce({ tool: null, old: pin?.definition ?? null, new: definition, digest }, ignore, ignore)
    return typeof old === "string" ? old : undefined
  }

  return {
    examineInstructions,
    examine: async (page) => {
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
    listed: async () => {
      if (isListed) return
      isListed = true
      await createDurably(listedFile, "")
    },
    find: (tool) => known.get(tool)
  }
}
