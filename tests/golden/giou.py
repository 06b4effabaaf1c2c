import triton
import triton.language as tl


@triton.jit
def giou_kernel_bwd(
    d_loss_ptr,
    pred_ptr,
    target_ptr,
    mask_ptr,
    d_pred_ptr,
    d_target_ptr,
    d_loss_stride,
    pred_stride,
    target_stride,
    mask_stride,
    n_boxes,
    BLOCK: tl.constexpr,
):
    """Backward of `giou_kernel` (kernel.py:13).

    Recomputed: px1, py1, px2, py2, tx1, ty1, tx2, ty2, overlap_w, overlap_h, overlap,
    pred_area, target_area, union, hull_w, hull_h, hull, iou, gap. Saved: nothing.
    d_pred: plain store, each element is written once (if pred_stride >= 4*n_boxes,
        tested at launch).
    d_target: plain store, each element is written once (if target_stride >= 4*n_boxes,
        tested at launch).
    """
    tl.static_assert(BLOCK == 32)
    # -- primal sweep (recomputed) --
    image = tl.program_id(0)  # kernel.py:25
    box = tl.arange(0, BLOCK)  # kernel.py:26
    valid = tl.load(
        mask_ptr + image * mask_stride + box, mask=box < n_boxes, other=False
    )  # kernel.py:28
    pred_offset = image * pred_stride  # kernel.py:30
    box_offsets = box * 4
    # kernel.py:31
    px1 = tl.load(pred_ptr + pred_offset + box_offsets, mask=valid, other=0.0)
    # kernel.py:32
    py1 = tl.load(pred_ptr + pred_offset + box_offsets + 1, mask=valid, other=0.0)
    # kernel.py:33
    px2 = tl.load(pred_ptr + pred_offset + box_offsets + 2, mask=valid, other=0.0)
    # kernel.py:34
    py2 = tl.load(pred_ptr + pred_offset + box_offsets + 3, mask=valid, other=0.0)
    target_offset = image * target_stride  # kernel.py:36
    # kernel.py:37
    tx1 = tl.load(target_ptr + target_offset + box_offsets, mask=valid, other=0.0)
    # kernel.py:38
    ty1 = tl.load(target_ptr + target_offset + box_offsets + 1, mask=valid, other=0.0)
    # kernel.py:39
    tx2 = tl.load(target_ptr + target_offset + box_offsets + 2, mask=valid, other=0.0)
    # kernel.py:40
    ty2 = tl.load(target_ptr + target_offset + box_offsets + 3, mask=valid, other=0.0)
    min_px2_tx2 = tl.minimum(px2, tx2)  # kernel.py:42
    max_px1_tx1 = tl.maximum(px1, tx1)
    raw_overlap_w = min_px2_tx2 - max_px1_tx1
    overlap_w = tl.maximum(raw_overlap_w, 0.0)
    min_py2_ty2 = tl.minimum(py2, ty2)  # kernel.py:43
    max_py1_ty1 = tl.maximum(py1, ty1)
    raw_overlap_h = min_py2_ty2 - max_py1_ty1
    overlap_h = tl.maximum(raw_overlap_h, 0.0)
    overlap = overlap_w * overlap_h  # kernel.py:44
    px2_minus_px1 = px2 - px1  # kernel.py:46
    clamped_px2_minus_px1 = tl.maximum(px2_minus_px1, 0.0)
    py2_minus_py1 = py2 - py1
    clamped_py2_minus_py1 = tl.maximum(py2_minus_py1, 0.0)
    pred_area = clamped_px2_minus_px1 * clamped_py2_minus_py1
    tx2_minus_tx1 = tx2 - tx1  # kernel.py:47
    clamped_tx2_minus_tx1 = tl.maximum(tx2_minus_tx1, 0.0)
    ty2_minus_ty1 = ty2 - ty1
    clamped_ty2_minus_ty1 = tl.maximum(ty2_minus_ty1, 0.0)
    target_area = clamped_tx2_minus_tx1 * clamped_ty2_minus_ty1
    union = pred_area + target_area - overlap  # kernel.py:48
    max_px2_tx2 = tl.maximum(px2, tx2)  # kernel.py:50
    min_px1_tx1 = tl.minimum(px1, tx1)
    raw_hull_w = max_px2_tx2 - min_px1_tx1
    hull_w = tl.maximum(raw_hull_w, 0.0)
    max_py2_ty2 = tl.maximum(py2, ty2)  # kernel.py:51
    min_py1_ty1 = tl.minimum(py1, ty1)
    raw_hull_h = max_py2_ty2 - min_py1_ty1
    hull_h = tl.maximum(raw_hull_h, 0.0)
    hull = hull_w * hull_h  # kernel.py:52
    union_positive = union > 0.0  # kernel.py:54
    safe_union = tl.where(union_positive, union, 1.0)
    iou = overlap / safe_union
    hull_positive = hull > 0.0  # kernel.py:55
    safe_hull = tl.where(hull_positive, hull, 1.0)
    gap = (hull - union) / safe_hull
    # -- reverse sweep --
    d_loss = tl.load(d_loss_ptr + image * d_loss_stride)  # kernel.py:57
    py2_is_ty2 = py2 == ty2  # kernel.py:51
    d_loss_over_safe_hull = d_loss / safe_hull  # kernel.py:55
    d_hull_term = tl.where(hull_positive, d_loss * gap / safe_hull, 0.0)
    d_hull = d_loss_over_safe_hull - d_hull_term
    d_hull_h = d_hull * hull_w  # kernel.py:52
    d_raw_hull_h = tl.where(raw_hull_h > 0.0, d_hull_h, 0.0)  # kernel.py:51
    half_d_raw_hull_h = 0.5 * d_raw_hull_h
    d_ty2_term = tl.where(ty2 == max_py2_ty2, d_raw_hull_h, 0.0)
    d_ty2_term_2 = tl.where(py2_is_ty2, half_d_raw_hull_h, d_ty2_term)
    # kernel.py:54
    d_union_term = tl.where(union_positive, d_loss * iou / safe_union, 0.0)
    d_union = d_union_term - d_loss_over_safe_hull
    d_ty2_term_3 = d_union * clamped_tx2_minus_tx1  # kernel.py:47
    d_ty2_minus_ty1 = tl.where(ty2_minus_ty1 > 0.0, d_ty2_term_3, 0.0)
    d_overlap = -(d_loss / safe_union) - d_union  # kernel.py:48
    d_overlap_h = d_overlap * overlap_w  # kernel.py:44
    d_raw_overlap_h = tl.where(raw_overlap_h > 0.0, d_overlap_h, 0.0)  # kernel.py:43
    half_d_raw_overlap_h = 0.5 * d_raw_overlap_h
    d_ty2_term_4 = tl.where(ty2 == min_py2_ty2, d_raw_overlap_h, 0.0)
    d_ty2_term_5 = tl.where(py2_is_ty2, half_d_raw_overlap_h, d_ty2_term_4)
    d_ty2 = d_ty2_term_2 + d_ty2_minus_ty1 + d_ty2_term_5
    # kernel.py:40
    tl.store(d_target_ptr + target_offset + box_offsets + 3, d_ty2, mask=valid)
    px2_is_tx2 = px2 == tx2  # kernel.py:50
    d_hull_w = d_hull * hull_h  # kernel.py:52
    d_raw_hull_w = tl.where(raw_hull_w > 0.0, d_hull_w, 0.0)  # kernel.py:50
    half_d_raw_hull_w = 0.5 * d_raw_hull_w
    d_tx2_term = tl.where(tx2 == max_px2_tx2, d_raw_hull_w, 0.0)
    d_tx2_term_2 = tl.where(px2_is_tx2, half_d_raw_hull_w, d_tx2_term)
    d_tx2_term_3 = d_union * clamped_ty2_minus_ty1  # kernel.py:47
    d_tx2_minus_tx1 = tl.where(tx2_minus_tx1 > 0.0, d_tx2_term_3, 0.0)
    d_overlap_w = d_overlap * overlap_h  # kernel.py:44
    d_raw_overlap_w = tl.where(raw_overlap_w > 0.0, d_overlap_w, 0.0)  # kernel.py:42
    half_d_raw_overlap_w = 0.5 * d_raw_overlap_w
    d_tx2_term_4 = tl.where(tx2 == min_px2_tx2, d_raw_overlap_w, 0.0)
    d_tx2_term_5 = tl.where(px2_is_tx2, half_d_raw_overlap_w, d_tx2_term_4)
    d_tx2 = d_tx2_term_2 + d_tx2_minus_tx1 + d_tx2_term_5
    # kernel.py:39
    tl.store(d_target_ptr + target_offset + box_offsets + 2, d_tx2, mask=valid)
    py1_is_ty1 = py1 == ty1  # kernel.py:51
    d_ty1_term = tl.where(ty1 == min_py1_ty1, -d_raw_hull_h, 0.0)
    d_ty1_term_2 = tl.where(py1_is_ty1, -half_d_raw_hull_h, d_ty1_term)
    d_ty1_term_3 = tl.where(ty1 == max_py1_ty1, -d_raw_overlap_h, 0.0)  # kernel.py:43
    d_ty1_term_4 = tl.where(py1_is_ty1, -half_d_raw_overlap_h, d_ty1_term_3)
    d_ty1 = d_ty1_term_2 - d_ty2_minus_ty1 + d_ty1_term_4
    # kernel.py:38
    tl.store(d_target_ptr + target_offset + box_offsets + 1, d_ty1, mask=valid)
    px1_is_tx1 = px1 == tx1  # kernel.py:50
    d_tx1_term = tl.where(tx1 == min_px1_tx1, -d_raw_hull_w, 0.0)
    d_tx1_term_2 = tl.where(px1_is_tx1, -half_d_raw_hull_w, d_tx1_term)
    d_tx1_term_3 = tl.where(tx1 == max_px1_tx1, -d_raw_overlap_w, 0.0)  # kernel.py:42
    d_tx1_term_4 = tl.where(px1_is_tx1, -half_d_raw_overlap_w, d_tx1_term_3)
    d_tx1 = d_tx1_term_2 - d_tx2_minus_tx1 + d_tx1_term_4
    # kernel.py:37
    tl.store(d_target_ptr + target_offset + box_offsets, d_tx1, mask=valid)
    d_py2_term = tl.where(py2 == max_py2_ty2, d_raw_hull_h, 0.0)  # kernel.py:51
    d_py2_term_2 = tl.where(py2_is_ty2, half_d_raw_hull_h, d_py2_term)
    d_py2_term_3 = d_union * clamped_px2_minus_px1  # kernel.py:46
    d_py2_minus_py1 = tl.where(py2_minus_py1 > 0.0, d_py2_term_3, 0.0)
    d_py2_term_4 = tl.where(py2 == min_py2_ty2, d_raw_overlap_h, 0.0)  # kernel.py:43
    d_py2_term_5 = tl.where(py2_is_ty2, half_d_raw_overlap_h, d_py2_term_4)
    d_py2 = d_py2_term_2 + d_py2_minus_py1 + d_py2_term_5
    # kernel.py:34
    tl.store(d_pred_ptr + pred_offset + box_offsets + 3, d_py2, mask=valid)
    d_px2_term = tl.where(px2 == max_px2_tx2, d_raw_hull_w, 0.0)  # kernel.py:50
    d_px2_term_2 = tl.where(px2_is_tx2, half_d_raw_hull_w, d_px2_term)
    d_px2_term_3 = d_union * clamped_py2_minus_py1  # kernel.py:46
    d_px2_minus_px1 = tl.where(px2_minus_px1 > 0.0, d_px2_term_3, 0.0)
    d_px2_term_4 = tl.where(px2 == min_px2_tx2, d_raw_overlap_w, 0.0)  # kernel.py:42
    d_px2_term_5 = tl.where(px2_is_tx2, half_d_raw_overlap_w, d_px2_term_4)
    d_px2 = d_px2_term_2 + d_px2_minus_px1 + d_px2_term_5
    # kernel.py:33
    tl.store(d_pred_ptr + pred_offset + box_offsets + 2, d_px2, mask=valid)
    d_py1_term = tl.where(py1 == min_py1_ty1, -d_raw_hull_h, 0.0)  # kernel.py:51
    d_py1_term_2 = tl.where(py1_is_ty1, -half_d_raw_hull_h, d_py1_term)
    d_py1_term_3 = tl.where(py1 == max_py1_ty1, -d_raw_overlap_h, 0.0)  # kernel.py:43
    d_py1_term_4 = tl.where(py1_is_ty1, -half_d_raw_overlap_h, d_py1_term_3)
    d_py1 = d_py1_term_2 - d_py2_minus_py1 + d_py1_term_4
    # kernel.py:32
    tl.store(d_pred_ptr + pred_offset + box_offsets + 1, d_py1, mask=valid)
    d_px1_term = tl.where(px1 == min_px1_tx1, -d_raw_hull_w, 0.0)  # kernel.py:50
    d_px1_term_2 = tl.where(px1_is_tx1, -half_d_raw_hull_w, d_px1_term)
    d_px1_term_3 = tl.where(px1 == max_px1_tx1, -d_raw_overlap_w, 0.0)  # kernel.py:42
    d_px1_term_4 = tl.where(px1_is_tx1, -half_d_raw_overlap_w, d_px1_term_3)
    d_px1 = d_px1_term_2 - d_px2_minus_px1 + d_px1_term_4
    tl.store(d_pred_ptr + pred_offset + box_offsets, d_px1, mask=valid)  # kernel.py:31
