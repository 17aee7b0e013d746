import { Option, Schema } from "effect"
import { useKeptWork } from "../state/keptWork.ts"

/** The fields of a form. */
export interface FormDraft<A> {
  readonly value: A
  readonly set: (change: Partial<A>) => void
  /** Whether a field differs from its saved value. */
  readonly isChanged: boolean
  /** Whether the input was found, typed before the page was opened. */
  readonly isRestored: boolean
  /** Begins again. */
  readonly discard: () => void
}

/**
 * The fields of a form, kept until they are discarded, or until `useKeptDialog` of the same name closes the form's dialog. Only changed fields
 * are kept, so that a restored form shows other fields as they are saved now. `Changes` is the schema of changed fields: the browser stores them as text, so that
 * fields with secrets are not among them.
 */
export const useFormDraft = <A extends object>(
  name: string,
  Changes: Schema.Codec<Partial<A>, unknown>,
  initial: A
): FormDraft<A> => {
  const codec = Schema.toCodecJson(Changes)
  const kept = useKeptWork<Partial<A>>({
    name,
    base: "",
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
    discard: kept.discard
  }
}
