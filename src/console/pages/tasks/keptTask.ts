/** The task form as it is kept while it is not saved. */
import { Struct } from "effect"
import { newTaskDraft, type ProviderDraft, type TaskDraft } from "./TaskDraft.ts"

/** A provider without its secrets, which the browser must not store. */
export const withoutSecrets = (provider: ProviderDraft): ProviderDraft => ({
  ...provider,
  api_key: "",
  headers: ""
})

const storable = (draft: TaskDraft): TaskDraft => ({ ...draft, provider: withoutSecrets(draft.provider) })

const sameDraft = (left: TaskDraft, right: TaskDraft): boolean =>
  Struct.keys(newTaskDraft).every((name) => name === "provider" || left[name] === right[name]) &&
  Struct.keys(newTaskDraft.provider).every((name) => left.provider[name] === right.provider[name])

/** The stored text of a form: nothing if it is as it was `before`. */
export const toStoredTask = (draft: TaskDraft, before: TaskDraft): TaskDraft | undefined => {
  const stored = storable(draft)
  return sameDraft(stored, storable(before)) ? undefined : stored
}

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null

/** Whether an object has the members of another, with the same types. */
const hasShapeOf = (value: unknown, model: object): boolean =>
  isRecord(value) && Object.entries(model).every(([name, member]) => typeof value[name] === typeof member)

const kinds: ReadonlySet<unknown> = new Set<ProviderDraft["kind"]>(["examples", "openai", "anthropic"])

/** The provider of a stored form; undefined if it is of another version of the console. */
export const restoreProvider = (stored: unknown): ProviderDraft | undefined => {
  if (!hasShapeOf(stored, newTaskDraft.provider) || !isRecord(stored) || !kinds.has(stored["kind"])) {
    return undefined
  }
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- its members were compared with those of a form
  return stored as unknown as ProviderDraft
}

/** The form of the stored text; undefined if it is of another version of the console. */
export const restoreTask = (stored: unknown): TaskDraft | undefined => {
  if (!isRecord(stored) || !hasShapeOf(stored, newTaskDraft)) return undefined
  if (restoreProvider(stored["provider"]) === undefined) return undefined
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- its members were compared with those of a form
  return stored as unknown as TaskDraft
}

/** A form after the task was saved elsewhere. */
export interface RebasedTask {
  readonly draft: TaskDraft
  /** The fields that changed in both. The form has its user's. */
  readonly conflicts: ReadonlyArray<string>
}

/** Puts the changes of a form, which began with `base`, onto the task as it is now. */
export const rebaseTask = (base: TaskDraft, draft: TaskDraft, current: TaskDraft): RebasedTask => {
  const conflicts: Array<string> = []
  const merge = <A extends object>(from: A, edited: A, now: A): A => {
    const merged = { ...now }
    for (const name of Struct.keys(now)) {
      if (edited[name] === from[name]) continue
      if (now[name] !== from[name] && now[name] !== edited[name]) conflicts.push(name)
      merged[name] = edited[name]
    }
    return merged
  }
  const { provider: _, ...fields } = current
  const provider = merge(base.provider, draft.provider, current.provider)
  return { draft: { ...merge<Omit<TaskDraft, "provider">>(base, draft, fields), provider }, conflicts }
}
