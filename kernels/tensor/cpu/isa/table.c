/* The functions of one instruction set by code. */
#include "tensor/cpu/isa/isa.h"

extern const tide_op_function OP(functions)[TIDE_OP_COUNT];

const tide_op_function OP(functions)[TIDE_OP_COUNT] = {
    [TIDE_OP_MAP] = OP(map),
    [TIDE_OP_MM] = OP(mm),
    [TIDE_OP_BMM] = OP(bmm),
    [TIDE_OP_CONV] = OP(conv),
    [TIDE_OP_CONV_DX] = OP(conv_dx),
    [TIDE_OP_CONV_DW] = OP(conv_dw),
    [TIDE_OP_MAXPOOL] = OP(maxpool),
    [TIDE_OP_MAXPOOL_DX] = OP(maxpool_dx),
    [TIDE_OP_AVGPOOL] = OP(avgpool),
    [TIDE_OP_AVGPOOL_DX] = OP(avgpool_dx),
    [TIDE_OP_MEAN_PIXELS] = OP(mean_pixels),
    [TIDE_OP_MEAN_PIXELS_DX] = OP(mean_pixels_dx),
    [TIDE_OP_BATCHNORM] = OP(batchnorm),
    [TIDE_OP_BATCHNORM_EVAL] = OP(batchnorm_eval),
    [TIDE_OP_BATCHNORM_DX] = OP(batchnorm_dx),
    [TIDE_OP_LAYERNORM] = OP(layernorm),
    [TIDE_OP_LAYERNORM_DX] = OP(layernorm_dx),
    [TIDE_OP_SOFTMAX] = OP(softmax),
    [TIDE_OP_SOFTMAX_DX] = OP(softmax_dx),
    [TIDE_OP_XENT] = OP(xent),
    [TIDE_OP_SIGMOID_XENT] = OP(sigmoid_xent),
    [TIDE_OP_MSE] = OP(mse),
    [TIDE_OP_HINGE] = OP(hinge),
    [TIDE_OP_SUM_LOSS] = OP(sum_loss),
    [TIDE_OP_EMBED] = OP(embed),
    [TIDE_OP_EMBED_DW] = OP(embed_dw),
    [TIDE_OP_ROW_SUMS] = OP(row_sums),
    [TIDE_OP_COLUMN_SUMS] = OP(column_sums),
    [TIDE_OP_SLICE] = OP(slice),
    [TIDE_OP_SLICE_DX] = OP(slice_dx),
    [TIDE_OP_CONCAT] = OP(concat),
    [TIDE_OP_DROPOUT] = OP(dropout),
};
