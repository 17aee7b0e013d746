import { Result } from "effect"
import { type KnownValues, noKnownValues, redactText } from "../Redaction.ts"
import type { SchemaFault } from "../../tasks/CompiledSchema/SchemaFault.ts"

/** Redacts schema faults: an unknown or duplicate property may have a secret as its name. */
export const redactFaults = (
  faults: ReadonlyArray<SchemaFault>,
  known: KnownValues = noKnownValues
): ReadonlyArray<SchemaFault> =>
  faults.map(({ detail, pointer }) => ({
    pointer: cleanPointer(pointer, known),
    detail: redactText(detail, known)
  }))

const cleanPointer = (pointer: string, known: KnownValues): string =>
  pointer
    .split("/")
    .map((token) => {
      const name = Result.getOrElse(
        Result.try(() => decodeURIComponent(token)),
        () => token
      )
      const clean = redactText(name, known)
      return clean === name ? token : encodeURIComponent(clean)
    })
    .join("/")
