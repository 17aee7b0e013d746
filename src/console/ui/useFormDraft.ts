import { Option, Result, Schema } from "effect"
import { useKeptWork } from "../state/keptWork.ts"
import { parseJson } from "./jsonText.ts"

/** The fields of a form. */
export interface FormDraft<A> {
  readonly value: A
  readonly set: (change: Partial<A>) => void
  /** Whether a field differs from its saved value. */
  readonly isChanged: boolean
  /** Whether the input was found, typed before the page was opened. */
  readonly isRestored: boolean
  /** Whether a changed field was saved with another value since it was typed: saving the form would overwrite that one. */
  readonly isOverwriting: boolean
  /** Begins again. */
  readonly discard: () => void
}

/**
 * The fields of a form, kept until they are discarded, or until `useKeptDialog` of the same name closes the form's dialog. Only changed fields
 * are kept, with the `initial` ones that they were typed over: a restored form shows other fields as they are saved now. `Changes` is the
 * schema of changed fields. The browser stores both as text, so that fields with secrets are not among them.
 */
export const useFormDraft = <A extends object>(
  name: string,
  Changes: Schema.Codec<Partial<A>, unknown>,
  initial: A
): FormDraft<A> => {
  const codec = Schema.toCodecJson(Changes)
  const base = JSON.stringify(initial)
  const kept = useKeptWork<Partial<A>>({
    name,
    base,
    initial: () => ({}),
    toStored: (changes) => Option.getOrUndefined(Schema.encodeOption(codec)(changes)),
    restore: (stored) => Option.getOrUndefined(Schema.decodeUnknownOption(codec)(stored))
  })
  const value = { ...initial, ...kept.work }
  return {
    value,
    set: (change) => kept.setWork({ ...kept.work, ...change }),
    isChanged: JSON.stringify(value) !== JSON.stringify(initial),
    isRestored: kept.isRestored,
    isOverwriting: kept.base !== base && isOverwritten(kept.work, kept.base, initial),
    discard: kept.discard
  }
}

/** Whether a field of `changes` is saved neither as in `base`, the JSON text of the form that they were typed over, nor as it was typed. */
const isOverwritten = (changes: object, base: string, saved: object): boolean => {
  const before = Object(Result.getOrUndefined(parseJson(base)))
  return Object.entries(changes).some(([field, typed]) => {
    const now = JSON.stringify(Reflect.get(saved, field))
    return now !== JSON.stringify(Reflect.get(before, field)) && now !== JSON.stringify(typed)
  })
}
