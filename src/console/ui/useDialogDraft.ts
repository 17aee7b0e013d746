import { Option, Schema } from "effect"
import { useKeptWork } from "../state/keptWork.ts"

/** The fields of a dialog's form. */
export interface DialogDraft<A> {
  readonly value: A
  readonly set: (change: Partial<A>) => void
  /** Whether the input was found, typed before the page was opened. */
  readonly isRestored: boolean
  /** Begins again. */
  readonly discard: () => void
}

/**
 * The fields of a dialog's form, kept until `useKeptDialog` of the same name closes it. Only changed fields are kept, so that a restored form
 * shows other fields as they are saved now. `Changes` is the schema of changed fields: the browser stores them as text, so that
 * fields with secrets are not among them.
 */
export const useDialogDraft = <A extends object>(
  name: string,
  Changes: Schema.Codec<Partial<A>, unknown>,
  initial: A
): DialogDraft<A> => {
  const codec = Schema.toCodecJson(Changes)
  const kept = useKeptWork<Partial<A>>({
    name,
    base: "",
    initial: () => ({}),
    toStored: (changes) => Option.getOrUndefined(Schema.encodeOption(codec)(changes)),
    restore: (stored) => Option.getOrUndefined(Schema.decodeUnknownOption(codec)(stored))
  })
  return {
    value: { ...initial, ...kept.work },
    set: (change) => kept.setWork({ ...kept.work, ...change }),
    isRestored: kept.isRestored,
    discard: kept.discard
  }
}
