import type { ReactNode } from "react"
import { UntrustedText } from "../UntrustedText.tsx"

/** A named fact of the selected records. */
export const Fact = ({ children, name }: { readonly name: string; readonly children: ReactNode }) => (
  <div>
    <dt>{name}</dt>
    <dd>{children}</dd>
  </div>
)

/** A fact that each record has: its value if it is the same for all, else each value with its count. */
export const CountedFact = ({
  name,
  values
}: {
  readonly name: string
  readonly values: ReadonlyArray<string>
}) => {
  const counts = [...Map.groupBy(values, (value) => value)]
  return (
    <Fact name={name}>
      {counts.map(([value, same], index) => (
        <span key={value}>
          {index === 0 ? "" : ", "}
          <UntrustedText text={value} />
          {counts.length === 1 ? "" : ` (${same.length})`}
        </span>
      ))}
    </Fact>
  )
}
