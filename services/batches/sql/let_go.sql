UPDATE platform.batches SET lease_until = 'epoch' WHERE batch_id = %(batch_id)s AND epoch = %(epoch)s
