import type { ReactNode } from "react"

/** The head of a column. */
export interface TableColumn {
  readonly name: string
  /** Whether numbers stand under it, which are set to the right. */
  readonly number?: boolean
  /** Whether its name is for those alone who do not see the page: what stands under it says what it is. */
  readonly hidden?: boolean
}

/** Rows under the heads of their columns, in a card unless they are in one; on a narrow page each row stands for itself. */
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
