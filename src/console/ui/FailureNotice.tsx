import type { ReactNode } from "react"
import { type Failure, isOfField } from "./problemFailure.ts"
import { UntrustedText } from "./UntrustedText.tsx"

/** Whether the detail of a failure, which often names the first fault, has the place and the text of an error. Its first letter may differ. */
const isInDetail = ({ detail, pointer }: Failure["errors"][number], failure: Failure): boolean =>
  (pointer === "#" || failure.detail.includes(pointer)) && failure.detail.includes(detail.slice(1))

/**
 * An error message, shown where the failed request belongs. Errors of `fields`, which show their own, are not repeated here.
 */
export const FailureNotice = ({
  children,
  failure,
  fields = []
}: {
  readonly failure: Failure | undefined
  /** The fields of the form that show their own errors. */
  readonly fields?: ReadonlyArray<string>
  readonly children?: ReactNode
}) => {
  if (failure === undefined) return null
  const errors = failure.errors.filter((error) => !fields.some((field) => isOfField(error, field)))
  const isAllAtFields = errors.length === 0 && failure.errors.length > 0
  const listed = errors.filter((error) => !isInDetail(error, failure))
  return (
    <div className="notice bad" role="alert">
      <p className="notice-title">{failure.title}</p>
      {failure.detail === "" || isAllAtFields ? null : (
        <p>
          <UntrustedText text={failure.detail} />
        </p>
      )}
      {listed.length === 0 ? null : (
        <ul>
          {listed.map(({ detail, pointer }) => (
            <li key={pointer + detail}>
              <code>{pointer}</code> <UntrustedText text={detail} />
            </li>
          ))}
        </ul>
      )}
      {failure.requestId === undefined || failure.code !== "INTERNAL_ERROR" ? null : (
        <p className="quiet">Request id: {failure.requestId}</p>
      )}
      {children === undefined ? null : <div className="notice-actions">{children}</div>}
    </div>
  )
}
