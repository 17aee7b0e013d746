import type { ReactNode } from "react"

/** A column header. */
export interface TableColumn {
  readonly name: string
  /** Right-aligned, for numbers. */
  readonly number?: boolean
  /** Visible to screen readers only, for columns whose content explains itself. */
  readonly hidden?: boolean
}

/** A table with column headers, in a card unless `bare`. On a narrow screen the cells of a row are stacked. */
export const Table = ({
  bare = false,
  children,
  columns
}: {
  readonly columns: ReadonlyArray<string | TableColumn>
  readonly bare?: boolean
  readonly children: ReactNode
}) => (
  <div className={bare ? "table-scroll" : "card table-scroll"}>
    <table className="table listed">
      <thead>
        <tr>
          {columns.map((column) => {
            const { hidden, name, number } = typeof column === "string" ? { name: column } : column
            return (
              <th key={name} scope="col" className={number === true ? "number" : undefined}>
                {hidden === true ? <span className="visually-hidden">{name}</span> : name}
              </th>
            )
          })}
        </tr>
      </thead>
      <tbody>{children}</tbody>
    </table>
  </div>
)
