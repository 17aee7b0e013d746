import type { Statement } from "effect/sql"
import type { RowInsert } from "../../store/givenRows.ts"
import type { PreparedWrite, SessionChange } from "./SessionWrite.ts"

/** A write with its index in the batch, and its change. */
export interface Op<Change extends SessionChange = SessionChange> {
  readonly op: number
  readonly write: PreparedWrite
  readonly change: Change
}

/** The change of one kind. */
export type ChangeOf<Tag extends SessionChange["_tag"]> = Extract<SessionChange, { readonly _tag: Tag }>

/** One kind of change: the CTE `name` has the `op` of each change that took effect. */
export interface ChangePart {
  readonly name: string
  readonly ctes: ReadonlyArray<Statement.Fragment>
  /** Inserts of further rows for the writes that were applied. */
  readonly inserts: ReadonlyArray<RowInsert>
  /** The counts of the changed rows. */
  readonly counts?: ReadonlyArray<Statement.Fragment>
}
