import type { ListOrder } from "../../api/listQuery.ts"
import { InlineSelect } from "./Select.tsx"

type Order = typeof ListOrder.Type

const orders: ReadonlyArray<readonly [Order, string]> = [
  ["newest", "Newest first"],
  ["oldest", "Oldest first"]
]

/** The choice of a list's order by time. `onChange` gets undefined for the default, newest first. */
export const OrderField = ({
  onChange,
  order = "newest"
}: {
  readonly order: Order | undefined
  readonly onChange: (order: Order | undefined) => void
}) => (
  <InlineSelect
    isLabelHidden
    label="Sort by"
    options={orders}
    value={order}
    onChange={(chosen) => onChange(chosen === "oldest" ? chosen : undefined)}
  />
)
