import { type ReactNode, useId } from "react"

/** The props that tie a form control to its label, hint and error. */
export interface FieldProps {
  readonly id: string
  readonly "aria-describedby": string | undefined
  readonly "aria-invalid": true | undefined
}

/** A labelled form control with an optional hint and validation error. */
export const Field = ({
  children,
  error,
  hint,
  label
}: {
  readonly label: ReactNode
  readonly hint?: ReactNode
  readonly error?: string | undefined
  readonly children: (props: FieldProps) => ReactNode
}) => {
  const id = useId()
  const described = [
    hint === undefined ? undefined : `${id}-hint`,
    error === undefined ? undefined : `${id}-error`
  ]
    .filter((one) => one !== undefined)
    .join(" ")
  return (
    <div className={error === undefined ? "field" : "field invalid"}>
      <label htmlFor={id}>{label}</label>
      {children({
        id,
        "aria-describedby": described === "" ? undefined : described,
        "aria-invalid": error === undefined ? undefined : true
      })}
      {hint === undefined ? null : (
        <p className="hint" id={`${id}-hint`}>
          {hint}
        </p>
      )}
      {error === undefined ? null : (
        <p className="field-error" id={`${id}-error`}>
          {error}
        </p>
      )}
    </div>
  )
}
