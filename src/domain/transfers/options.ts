/** What a client asks of a transfer beyond the copy. An option that is not asked for is absent. */
export interface TransferOptions {
  /** SHA-256 that the file must have, in lowercase hex. */
  expected_sha256?: string;
  /** `read_back`: the mover reads the destination and compares its SHA-256 with the source's. */
  verify?: 'read_back';
  /** The destination gets the modification time of the source, if its server can. */
  preserve_mtime?: boolean;
}

/** The options that all transfers of a batch can share. */
export type CommonOptions = Omit<TransferOptions, 'expected_sha256'>;

/** Options as a request has them. */
type Asked = { [Name in keyof TransferOptions]?: TransferOptions[Name] | undefined };

/** Returns the options that are asked for, so that a transfer without options has no field more. */
export function optionsOf({ expected_sha256, verify, preserve_mtime }: Asked): TransferOptions {
  return {
    ...(expected_sha256 !== undefined && { expected_sha256 }),
    ...(verify !== undefined && { verify }),
    ...(preserve_mtime && { preserve_mtime }),
  };
}

/** Returns the options of an item. It keeps a `false` in place of the `true` of its batch. */
export function optionsOfItem(item: Asked, batch: Asked): TransferOptions {
  const isNot = item.preserve_mtime === false && batch.preserve_mtime === true;
  return { ...optionsOf(item), ...(isNot && { preserve_mtime: false }) };
}
