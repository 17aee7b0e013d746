import { Cause } from "effect"

/** The errors and defects of a cause, in order, without its interruptions. */
export const errorsOf = (cause: Cause.Cause<unknown>): ReadonlyArray<unknown> =>
  cause.reasons.flatMap((reason) => {
    if (Cause.isFailReason(reason)) return [reason.error]
    return Cause.isDieReason(reason) ? [reason.defect] : []
  })
