import { type ReactNode, useId } from "react"

/** What a control of a field is given, so that its label, hint and fault belong to it. */
export interface FieldProps {
  readonly id: string
  readonly "aria-describedby": string | undefined
  readonly "aria-invalid": true | undefined
}

/** A labelled control with its hint, and its fault where there is one. */
export const Field = ({
  children,
  fault,
  hint,
  label
}: {
  readonly label: ReactNode
  readonly hint?: ReactNode
  readonly fault?: string | undefined
  readonly children: (props: FieldProps) => ReactNode
}) => {
  const id = useId()
  const described = [
    hint === undefined ? undefined : `${id}-hint`,
    fault === undefined ? undefined : `${id}-fault`
  ]
    .filter((one) => one !== undefined)
    .join(" ")
  return (
    <div className={fault === undefined ? "field" : "field faulty"}>
      <label htmlFor={id}>{label}</label>
      {children({
        id,
        "aria-describedby": described === "" ? undefined : described,
        "aria-invalid": fault === undefined ? undefined : true
      })}
      {hint === undefined ? null : (
        <p className="hint" id={`${id}-hint`}>
          {hint}
        </p>
      )}
      {fault === undefined ? null : (
        <p className="fault" id={`${id}-fault`}>
          {fault}
        </p>
      )}
    </div>
  )
}
