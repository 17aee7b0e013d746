import type { AsyncResult, Atom } from "effect/reactivity"
import type { ReactNode } from "react"
import { PageTitle } from "../app/PageTitle.tsx"
import { AsyncContent } from "./AsyncContent.tsx"
import { Button } from "./Button.tsx"
import { Table, type TableColumn } from "./Table.tsx"

/**
 * The record that a link names, as the only row of a table above its list: it may be on another page of the list, or match none of its filters.
 */
export const LinkedRecord = <A extends { readonly name: string }, E>({
  atom,
  children,
  columns,
  onClose,
  title
}: {
  /** `Selected key`. */
  readonly title: string
  readonly atom: Atom.Atom<AsyncResult.AsyncResult<A, E>>
  readonly columns: ReadonlyArray<string | TableColumn>
  readonly onClose: () => void
  /** Its row. */
  readonly children: (record: A) => ReactNode
}) => (
  <section className="stack linked-record" aria-label={title}>
    <div className="change-head">
      <h2>{title}</h2>
      <Button small onClick={onClose}>
        Close
      </Button>
    </div>
    <AsyncContent atom={atom}>
      {(record) => (
        <>
          <PageTitle parts={[record.name]} />
          <Table columns={columns}>{children(record)}</Table>
        </>
      )}
    </AsyncContent>
  </section>
)
