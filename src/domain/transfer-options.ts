/** What a client asks of a transfer beyond the copy. An option that is not asked for is absent. */
export interface TransferOptions {
  /** SHA-256 that the file must have, in lowercase hex. */
  expected_sha256?: string;
}

/** Options as a request has them. */
type Asked = { [Name in keyof TransferOptions]?: TransferOptions[Name] | undefined };

/** Returns the options that are asked for, so that a transfer without options has no field more. */
export function optionsOf({ expected_sha256 }: Asked): TransferOptions {
  return { ...(expected_sha256 !== undefined && { expected_sha256 }) };
}
